"""Confirmation: the action runs only after a yes that follows the question."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.parts.relay.confirm import Proposal, show_argument
from tests.cli.place import DEADLINE, SEGUE, until
from tests.parts.relay.place import Relay, RelayPlace
from tests.shebang import shebang

CONFIG = """
[relay]
confirm_timeout = {timeout}
[relay.actions.touch]
argv = ["touch", "{folder}/{{name}}"]
parameters = {{ name = "(?s).*" }}
confirm = "{how}"
concurrency = 4
"""


def make(root: Path, how: str, timeout: float = 60) -> RelayPlace:
    return RelayPlace.make(root / "place", CONFIG.format(how=how, folder=root, timeout=timeout))


@dataclass
class Person:
    """A person at the relay's terminal."""

    fd: int
    relay: Relay
    seen: bytearray = field(default_factory=bytearray)

    def sees(self, text: str) -> None:
        until(lambda: self._look(text), text)

    def _look(self, text: str) -> bool:
        with suppress(BlockingIOError):
            self.seen += os.read(self.fd, 65536)
        return text.encode() in self.seen

    def types(self, text: str) -> None:
        os.write(self.fd, text.encode())


@contextmanager
def at_terminal(place: RelayPlace) -> Iterator[Person]:
    """A relay on its own terminal."""
    import pty

    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    argv = [*SEGUE, "relay", "serve", "--port", "0", "--json", "--config", str(place.config)]
    process = subprocess.Popen(
        argv,
        cwd=place.root,
        env=place.env,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        text=True,
        start_new_session=True,
    )
    os.close(theirs)
    person = Person(ours, Relay(place, process, ""))
    try:
        person.sees('"actions": ["touch"]}\r\n')
        person.relay.url = json.loads(person.seen.decode().splitlines()[-1])["url"]
        yield person
    finally:
        person.relay.stop()
        os.close(ours)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of POSIX")
def test_the_person_at_the_terminal_decides(tmp_path: Path) -> None:
    place = make(tmp_path, "terminal")
    with at_terminal(place) as person, ThreadPoolExecutor(2) as pool:
        person.types("y\ny\n")  # ahead of any question: must not count
        yes = pool.submit(person.relay.run, "touch", "key-1", None, name="yes")
        person.sees(f"Run touch: touch {tmp_path}/yes (in {place.env['HOME']})? [y/N]")
        assert not (tmp_path / "yes").exists()
        person.types("y\n")
        assert yes.result().json()["ok"] is True
        assert (tmp_path / "yes").exists()
        no = pool.submit(person.relay.run, "touch", "key-2", None, name="no\x1b[2J\nRun nice?")
        person.sees('no\\u001b[2J\\u000aRun nice?"')
        person.types("\n")
        answer = no.result()
        assert (answer.status_code, answer.json()["code"]) == (403, "refused")
        again = person.relay.run("touch", "key-2", None, name="no\x1b[2J\nRun nice?")
        assert (again.status_code, again.headers["idempotent-replayed"]) == (403, "true")
        assert b"\x1b[2J" not in person.seen
    assert sorted(path.name for path in tmp_path.iterdir()) == ["place", "yes"]
    assert [e for e in place.events() if e in ("confirmed", "declined")] == ["confirmed", "declined"]
    by_event = {entry["event"]: entry for entry in place.audit() if "digest" in entry}
    assert by_event["confirmed"]["digest"] == by_event["started"]["digest"] != by_event["declined"]["digest"]


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of POSIX")
def test_the_end_of_a_long_value_is_shown(tmp_path: Path) -> None:
    place = make(tmp_path, "terminal")
    with at_terminal(place) as person, ThreadPoolExecutor(2) as pool:
        asked = pool.submit(person.relay.run, "touch", None, None, name=f"{'x' * 4000} -- the end")
        person.sees(' -- the end" (in ')
        person.types("n\n")
        assert asked.result().status_code == 403


@given(st.lists(st.text(), min_size=1), st.text(), st.text())
def test_nothing_is_hidden_and_two_commands_never_look_alike(
    argv: list[str], folder: str, action: str
) -> None:
    shown = Proposal(action, tuple(argv), folder)
    for argument in argv:
        seen = show_argument(argument)
        assert seen.isprintable()
        unquoted = (
            seen if seen == argument else seen[1:-1].encode("raw_unicode_escape").decode("unicode_escape")
        )
        assert unquoted == argument
    assert " ".join(map(show_argument, argv)) in shown.text
    other = Proposal(action, (*argv, ""), folder)
    assert (other.text, other.digest) != (shown.text, shown.digest)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of POSIX")
def test_silence_means_no(tmp_path: Path) -> None:
    with at_terminal(make(tmp_path, "terminal", timeout=0.3)) as person:
        assert person.relay.run("touch", name="x").status_code == 403
    assert not (tmp_path / "x").exists()


def test_without_a_terminal_the_relay_does_not_start(tmp_path: Path) -> None:
    place = make(tmp_path, "terminal")
    assert "the relay has none" in place.segue("serve", code=2).stderr


FAKE = """{shebang}
import json, os, pathlib, sys, time
folder = pathlib.Path({folder!r})
(folder / "asked.json").write_text(json.dumps(sys.argv))
if (folder / "hang").exists():
    time.sleep(1000)
sys.exit(int((folder / "answer").read_text()))
"""


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="these ask in another way")
def test_a_dialog_asks(tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "zenity").write_text(FAKE.format(shebang=shebang(), folder=str(folder)))
    (folder / "zenity").chmod(0o755)
    place = make(tmp_path, "desktop", timeout=DEADLINE)
    place.env["PATH"] = f"{folder}{os.pathsep}{place.env['PATH']}"
    with place.serving() as relay:
        (folder / "answer").write_text("0")
        assert relay.run("touch", name="--help;<b>").json()["ok"] is True
        asked = json.loads((folder / "asked.json").read_text())
        assert asked[-1].startswith(f'--text=Run touch: touch "{tmp_path}/--help;<b>" (in ')
        assert "--no-markup" in asked
        (folder / "answer").write_text("1")
        assert relay.run("touch", name="no").status_code == 403
        (folder / "asked.json").unlink()
        long = relay.run("touch", name="x" * 1500)
        assert (long.status_code, long.json()["code"]) == (400, "too_long")
        assert not (folder / "asked.json").exists(), "nobody is shown a part of it"
    (folder / "hang").touch()
    place.config.write_text(CONFIG.format(how="desktop", folder=tmp_path, timeout=1))
    with place.serving() as relay:
        assert relay.run("touch", name="late").status_code == 403
    assert {path.name for path in tmp_path.iterdir()} == {"bin", "place", "--help;<b>"}


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="these ask in another way")
def test_without_a_dialog_the_relay_does_not_start(tmp_path: Path) -> None:
    place = make(tmp_path, "desktop")
    place.env["PATH"] = str(tmp_path)
    assert "no program that shows dialogs" in place.segue("serve", code=2).stderr
