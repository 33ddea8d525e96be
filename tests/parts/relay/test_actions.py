"""Arguments stay arguments, and a misbehaving action is stopped with its children."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.domain.options import read_options
from segue.parts.relay.execute import WrongParameter, check_parameters, make_argv
from segue.parts.relay.options import ActionSettings
from tests.cli.place import processes_with, until
from tests.parts.relay.place import PYTHON, Relay, RelayPlace
from tests.patience import FACTORS, unhurried

STUBBORN = """
import signal, time
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
print("I will not go", flush=True)
time.sleep(1000)
"""
FORKING = """
import os, subprocess, sys, time
for _ in range(3):
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)", MARK], start_new_session=True)
if os.fork() == 0:
    os.setsid()
    time.sleep(1000)
print("forked", flush=True)
if "stay" in sys.argv:
    time.sleep(1000)
"""
PRINTING = """
import os
while True:
    os.write(1, b"and on " * 1000)
"""
SHOWING = """
import json, os, sys
json.dump({"argv": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd()}, sys.stdout)
"""


def action(name: str, script: str, *arguments: str, more: str = "") -> str:
    script = script.replace("{", "{{").replace("}", "}}")
    words = ", ".join([PYTHON, '"-c"', f"'''{script}'''", *(f'"{word}"' for word in arguments)])
    return f"[relay.actions.{name}]\nargv = [{words}]\ngrace = 0.2\n{more}\n"


@pytest.fixture(scope="module")
def relay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Relay]:
    root = tmp_path_factory.mktemp("actions")
    mark = f'"relay-mark-{root.name}-{os.getpid()}"'
    forking = FORKING.replace("MARK", mark)
    config = "".join(
        [
            "[relay]\nrate = 1000\n",
            *(action(f"stubborn_{n}", STUBBORN, mark.strip('"'), more=f"timeout = {n}") for n in FACTORS),
            action("forking", forking, mark.strip('"')),
            *(
                action(f"forking_on_{n}", forking, mark.strip('"'), "stay", more=f"timeout = {n}")
                for n in FACTORS
            ),
            action("printing", PRINTING, more="timeout = 60\noutput_bytes = 1000\nprinted_bytes = 1000000"),
            action(
                "showing",
                SHOWING,
                "-x",
                "{word}",
                "a{word}b",
                "{{}}",
                more=f'parameters = {{ word = "(?s).*" }}\ncwd = "{root}"\n'
                'pass_env = ["SHOWN"]\nenv = { MY_SECRET = "hunter2hunter2" }',
            ),
            action("failing", "import sys; sys.exit('it broke')"),
            action(
                "slow", "import time; time.sleep(1000)", f"slow-{root.name}", more="end_with_client = true"
            ),
            action("long", "import time; time.sleep(1000)", f"long-{root.name}", more="timeout = 2"),
            '[relay.actions.missing]\nargv = ["no-such-program-at-all"]\n',
        ]
    )
    place = RelayPlace.make(root / "place", config)
    place.env |= {"SHOWN": "shown", "NOT_SHOWN": "hidden"}
    with place.serving() as relay:
        yield relay


@pytest.mark.thorough
def test_what_ignores_every_signal_is_killed(relay: Relay) -> None:
    def check(factor: float) -> None:
        body = relay.run(f"stubborn_{factor}").json()
        assert (body["ok"], body["ended_by"], body["signal"]) == (False, "timeout", 9)
        assert "I will not go" in body["stdout"]

    unhurried(check)


def leftovers(relay: Relay) -> list[int]:
    found = []
    for pid in processes_with(f"relay-mark-{relay.place.root.parent.name}-{os.getpid()}"):
        words = Path(f"/proc/{pid}/cmdline").read_bytes() if Path(f"/proc/{pid}").exists() else b""
        if b"time.sleep(1000)" in words:
            found.append(pid)
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize(("name", "ok"), [("forking", True), ("forking_on_{}", False)])
def test_children_end_with_the_action(relay: Relay, name: str, ok: bool) -> None:
    def check(factor: float) -> None:
        body = relay.run(name.format(factor)).json()
        assert (body["ok"], body["stdout"]) == (ok, "forked\n")
        assert leftovers(relay) == []

    unhurried(check)


def test_what_prints_for_ever_is_ended_and_cut(relay: Relay) -> None:
    body = relay.run("printing").json()
    assert (body["ok"], body["ended_by"], body["truncated"]) == (False, "output", True)
    assert len(body["stdout"]) == 1000


@pytest.mark.parametrize(
    "word", ["$(id) `id` ; id | id > x && id", "\"'\\ \n\t*?~", "ünï \U0001f600", "{word}", ""]
)
def test_arguments_are_data(relay: Relay, word: str) -> None:
    body = relay.run("showing", word=word).json()
    shown = json.loads(body["stdout"])
    assert shown["argv"] == ["-x", word, f"a{word}b", "{}"]
    assert shown["cwd"] == str(relay.place.root.parent)


def test_the_environment_is_what_was_allowed(relay: Relay) -> None:
    body = relay.run("showing", word="x").json()
    env = json.loads(body["stdout"])["env"]
    assert env["SHOWN"] == "shown"
    assert "NOT_SHOWN" not in env
    assert env["MY_SECRET"] == "[redacted]"
    assert "hunter2hunter2" not in (relay.place.folder / "audit.jsonl").read_text()


def test_secrets_in_parameters_do_not_reach_the_log(relay: Relay) -> None:
    assert relay.run("showing", word="hunter2hunter2").status_code == 200
    assert "hunter2hunter2" not in (relay.place.folder / "audit.jsonl").read_text()


def test_failures_are_told(relay: Relay) -> None:
    body = relay.run("failing").json()
    assert (body["ok"], body["exit_code"], body["stderr"]) == (False, 1, "it broke\n")
    body = relay.run("missing").json()
    assert (body["ok"], body["exit_code"], body["ended_by"]) == (False, None, "not_started")
    assert "no-such-program" in body["message"]


def hang_up(relay: Relay, name: str) -> None:
    """Call an action and disconnect while it runs."""
    started = relay.place.events().count("started")
    body = f'{{"action": "{name}"}}'
    head = f"POST /run HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {relay.place.token}\r\n"
    with socket.create_connection(("127.0.0.1", urlsplit(relay.url).port or 0)) as connection:
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        until(lambda: relay.place.events().count("started") > started, "the action to start")


@pytest.mark.thorough
def test_an_action_outlives_its_caller_unless_told(relay: Relay) -> None:
    hang_up(relay, "long")
    until(lambda: relay.place.audit()[-1]["event"] == "ended", "the action's own end")
    assert relay.place.audit()[-1]["ended_by"] == "timeout"
    hang_up(relay, "slow")
    until(lambda: not list(processes_with(f"slow-{relay.place.root.parent.name}")), "its end")
    until(lambda: relay.place.audit()[-1]["event"] == "ended", "the note of its end")
    assert relay.place.audit()[-1]["code"] == "ended"


@pytest.mark.thorough
def test_actions_end_with_the_relay(tmp_path: Path) -> None:
    mark = f"ending-{tmp_path.name}-{os.getpid()}"
    place = RelayPlace.make(tmp_path / "place", action("sleep", STUBBORN, mark))
    relay = place.start()
    body = '{"action": "sleep"}'
    head = f"POST /run HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {place.token}\r\n"
    with socket.create_connection(("127.0.0.1", urlsplit(relay.url).port or 0)) as connection:
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        until(lambda: list(processes_with(mark)), "the action")
        relay.stop()
    assert relay.process.returncode == 0
    assert not list(processes_with(mark))
    assert place.audit()[-1]["ended_by"] == "stopped"


TEXT = st.text(max_size=40)


@settings(deadline=None)
@given(TEXT, TEXT)
def test_a_value_changes_only_its_own_argument(one: str, two: str) -> None:
    made = read_options(
        ActionSettings,
        {
            "argv": ["tool", "--", "{one}", "--x={two}", "fixed"],
            "parameters": {"one": "(?s).*", "two": "(?s).*"},
        },
    )
    try:
        argv = make_argv(made, check_parameters(made, {"one": one, "two": two}))
    except WrongParameter:
        assert one.startswith("-") or "\0" in one + two or not encodable(one + two)
    else:
        assert argv == ["tool", "--", one, f"--x={two}", "fixed"]


def encodable(text: str) -> bool:
    return not any(0xD800 <= ord(char) <= 0xDFFF for char in text)
