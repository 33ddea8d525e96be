"""Arguments stay arguments, an action sees what it was allowed, and its children end with it."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.domain.options import read_options
from segue.features.relay.execute import WrongParameter, check_parameters, make_argv
from segue.features.relay.options import ActionSettings
from tests.cli.place import processes_with, until
from tests.features.relay.place import PYTHON, Relay, RelayPlace

FORKING = """
import os, subprocess, sys, time
for _ in range(3):
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)", MARK], start_new_session=True)
if os.fork() == 0:
    os.setsid()
    time.sleep(1000)
print("forked", flush=True)
"""
SHOWING = """
import json, os, sys
json.dump({"argv": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd()}, sys.stdout)
"""
SLEEPING = "import time; time.sleep(1000)"


def action(name: str, script: str, *arguments: str, more: str = "") -> str:
    script = script.replace("{", "{{").replace("}", "}}")
    words = ", ".join([PYTHON, '"-c"', f"'''{script}'''", *(f'"{word}"' for word in arguments)])
    return f"[relay.actions.{name}]\nargv = [{words}]\n{more}\n"


@pytest.fixture(scope="module")
def relay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Relay]:
    root = tmp_path_factory.mktemp("actions")
    mark = f'"relay-mark-{root.name}-{os.getpid()}"'
    allowed = f'parameters = {{ word = "(?s).*" }}\ncwd = "{root}"\n'
    allowed += 'pass_env = ["SHOWN"]\nenv = { MY_SECRET = "hunter2hunter2" }'
    config = "".join(
        [
            action("forking", FORKING.replace("MARK", mark), mark.strip('"')),
            action("printing", "print('and on ' * 1000)", more="output_bytes = 1000"),
            action("showing", SHOWING, "-x", "{word}", "a{word}b", "{{}}", more=allowed),
            action("failing", "import sys; sys.exit('it broke')"),
            action("long", SLEEPING, more="timeout = 1"),
            '[relay.actions.missing]\nargv = ["no-such-program-at-all"]\n',
        ]
    )
    place = RelayPlace.make(root / "place", config)
    place.env |= {"SHOWN": "shown", "NOT_SHOWN": "hidden"}
    with place.serving() as relay:
        yield relay


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_children_end_with_the_action(relay: Relay) -> None:
    body = relay.run("forking").json()
    assert (body["ok"], body["stdout"]) == (True, "forked\n")
    found = []
    for pid in processes_with(f"relay-mark-{relay.place.root.parent.name}-{os.getpid()}"):
        words = Path(f"/proc/{pid}/cmdline").read_bytes() if Path(f"/proc/{pid}").exists() else b""
        if b"time.sleep(1000)" in words:
            found.append(pid)
    assert found == []


def test_only_the_end_of_the_output_is_sent_back(relay: Relay) -> None:
    body = relay.run("printing").json()
    assert (body["ok"], body["truncated"], len(body["stdout"])) == (True, True, 1000)


@pytest.mark.parametrize("word", ["$(id) `id` ; id | id > x && id", "\"'\\ \n\t*?~", "ünï {word}", ""])
def test_arguments_are_data(relay: Relay, word: str) -> None:
    body = relay.run("showing", word=word).json()
    shown = json.loads(body["stdout"])
    assert shown["argv"] == ["-x", word, f"a{word}b", "{}"]
    assert shown["cwd"] == str(relay.place.root.parent)


def test_the_environment_is_what_was_allowed_and_secrets_reach_no_log(relay: Relay) -> None:
    body = relay.run("showing", word="hunter2hunter2").json()
    env = json.loads(body["stdout"])["env"]
    assert env["SHOWN"] == "shown"
    assert "NOT_SHOWN" not in env
    assert env["MY_SECRET"] == "[redacted]"
    assert "hunter2hunter2" not in (relay.place.folder / "audit.jsonl").read_text()


def test_failures_are_reported(relay: Relay) -> None:
    body = relay.run("failing").json()
    assert (body["ok"], body["exit_code"], body["stderr"]) == (False, 1, "it broke\n")
    body = relay.run("missing").json()
    assert (body["ok"], body["exit_code"], body["ended_by"]) == (False, None, "not_started")
    assert "no-such-program" in body["message"]


def connect(relay: Relay, name: str) -> socket.socket:
    """Call an action, and leave without its answer."""
    body = f'{{"action": "{name}"}}'
    head = f"POST /run HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {relay.place.token}\r\n"
    connection = socket.create_connection(("127.0.0.1", urlsplit(relay.url).port or 0))
    connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
    return connection


def test_an_action_outlives_its_caller(relay: Relay) -> None:
    started = relay.place.events().count("started")
    with connect(relay, "long"):
        until(lambda: relay.place.events().count("started") > started, "the action to start")
    until(lambda: relay.place.audit()[-1]["event"] == "ended", "the action's own end")
    assert relay.place.audit()[-1]["ended_by"] == "timeout"


def test_actions_end_with_the_relay(tmp_path: Path) -> None:
    mark = f"ending-{tmp_path.name}-{os.getpid()}"
    place = RelayPlace.make(tmp_path / "place", action("sleep", SLEEPING, mark))
    relay = place.start()
    with connect(relay, "sleep"):
        until(lambda: list(processes_with(mark)), "the action")
        relay.stop()
    assert relay.process.returncode == 0
    assert not list(processes_with(mark))
    assert place.audit()[-1]["ended_by"] == "stopped"


TEXT = st.text(max_size=40)


@given(TEXT, TEXT)
def test_a_value_changes_only_its_own_argument(one: str, two: str) -> None:
    argv = ["tool", "--", "{one}", "--x={two}", "fixed"]
    made = read_options(ActionSettings, {"argv": argv, "parameters": dict.fromkeys(("one", "two"), "(?s).*")})
    try:
        filled = make_argv(made, check_parameters(made, {"one": one, "two": two}))
    except WrongParameter:
        assert one.startswith("-") or "\0" in one + two or not encodable(one + two)
    else:
        assert filled == ["tool", "--", one, f"--x={two}", "fixed"]


def encodable(text: str) -> bool:
    return not any(0xD800 <= ord(char) <= 0xDFFF for char in text)
