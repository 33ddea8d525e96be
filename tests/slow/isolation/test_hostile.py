"""An agent that tries everything to get out, in every sandbox: it achieves exactly what the table says."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from segue.system.isolation.places import is_temporary
from tests.cli.place import PLAN, Place, processes_with
from tests.isolation.homes import CREDENTIALS, WORD, make_home
from tests.isolation.limits import ATTEMPTS, NOT_STOPPED
from tests.isolation.means import each

REPOSITORY = Path(__file__).resolve().parents[3]
HOSTILE = Path(__file__).with_name("hostile.py")
RUN = Path("/run")

TEXTS = [name for name, content in CREDENTIALS.items() if WORD in content]


@dataclass
class Outside:
    """What is around the sandbox, and what of it an agent reached."""

    place: Place
    facts: dict[str, Any]
    listeners: list[socket.socket] = field(default_factory=list)

    def attack(self, isolation: str, strength: str) -> set[str]:
        """Let the hostile agent work in a run, and return what it achieved."""
        argv = json.dumps([sys.executable, "-IS", str(HOSTILE), str(self.place.root / "facts.json")])
        sandbox = f'[sandbox]\nstrength = "{strength}"\nwrite = ["~/.config"]\n'
        self.place.config(f'agent = "command"\n{sandbox}[agents.command]\nargv = {argv}\n')
        (self.place.root / "facts.json").write_text(json.dumps(self.facts))
        done = self.place.segue(
            *("run", "plan.md", "--task", "1", "--commit", "never", "--isolation", isolation), code=None
        )
        report = self.place.repo / "achieved.json"
        assert report.exists(), done.stderr
        said: dict[str, object] = json.loads(report.read_text())
        assert said.keys() == ATTEMPTS.keys()
        return {name for name, achieved in said.items() if achieved is True} | set(self._seen())

    def _seen(self) -> Iterator[str]:
        """What can be seen from outside, whatever the agent says."""
        word, root = self.facts["word"], self.place.root
        if [path for path in root.glob("sibling/**/*") if path.is_file() and path.read_text() == word]:
            yield "write_sibling"
        if any((root / "home" / name).exists() for name in ("planted", ".profile", ".local/bin/git")):
            yield "write_home"
        machine = Path(tempfile.gettempdir()) / word
        if machine.exists():
            machine.unlink()
            yield "write_tmp"
        if Path("/etc", word).exists():
            Path("/etc", word).unlink()
            yield "write_system"
        if list(processes_with(self.facts["nap"])):
            yield "daemon"


@pytest.fixture
def outside() -> Iterator[Outside]:
    """A home full of secrets, services and processes; not in /tmp, which sandboxes treat specially."""
    (REPOSITORY / ".pytest_cache").mkdir(exist_ok=True)
    root = Path(tempfile.mkdtemp(prefix="isolation-", dir=REPOSITORY / ".pytest_cache"))
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, root, ignore_errors=True)
        yield _make(root, stack)


def _make(root: Path, stack: contextlib.ExitStack) -> Outside:
    word = f"canary-{secrets.token_hex(8)}"
    place = Place.make(root, PLAN)
    make_home(root / "home", {name: CREDENTIALS[name].replace(WORD, word) for name in TEXTS})
    place.use_sandbox()
    state = root / "state" / "segue"
    hidden = [root / "home" / ".config" / "segue" / "config.toml"]
    lanes = [state / "runs" / "another" / "jobs" / "t" / "prompt", state / "worktrees" / "another" / "file"]
    for path in (*hidden, *lanes, root / "config" / "segue" / "trust.json"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(word)
    (root / "sibling").mkdir()
    (root / "sibling" / "kept.txt").write_text("kept")
    (root / "home" / ".local" / "bin").mkdir(parents=True)
    (root / "home" / "app").mkdir()
    victim = subprocess.Popen(
        [sys.executable, "-IS", "-c", "import time; time.sleep(600)", word], env={"WORD": word}
    )
    stack.callback(victim.wait)
    stack.callback(victim.kill)
    addresses: dict[str, tuple[str, int] | str] = {
        "port": ("127.0.0.1", 0),
        "abstract": f"\0{word}",
        "socket": _short(root, stack),
    }
    listeners = {}
    for name, address in addresses.items():
        family = socket.AF_INET if name == "port" else socket.AF_UNIX
        listeners[name] = stack.enter_context(socket.socket(family))
        listeners[name].bind(address)
        listeners[name].listen()
    facts = {
        "home": str(root / "home"),
        "sibling": str(root / "sibling"),
        "word": word,
        "victim": victim.pid,
        "segue": [os.getpid()],
        "state": [str(path) for path in (*lanes, root / "config" / "segue" / "trust.json")],
        "nap": f"987.{secrets.randbelow(10**9)}",
        "port": listeners["port"].getsockname()[1],
        "abstract": word,
        "socket": str(root / "home" / "app" / "s"),
        "credentials": TEXTS,
        "private": list(_private_sockets(root, stack)),
    }
    return Outside(place, facts)


def _private_sockets(root: Path, stack: contextlib.ExitStack) -> Iterator[str]:
    """Listen where Docker, a desktop's session and ssh-agent do; in /run if this user may."""
    deep = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="agent-"))) / "a" / "b"
    tools = root / "home" / ".docker" / "run"
    for folder in (deep, tools):
        folder.mkdir(parents=True)
    places = {deep: str(deep / "s"), tools: f"/proc/self/fd/{_open(tools, stack)}/s"}
    if os.access(RUN, os.W_OK):
        run = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="segue-test-", dir=RUN)))
        places[run] = str(run / "s")
    for folder, address in places.items():
        listener = stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(address)
        listener.listen()
        yield str(folder / "s")


def _open(folder: Path, stack: contextlib.ExitStack) -> int:
    found = os.open(folder, os.O_PATH)
    stack.callback(os.close, found)
    return found


def _short(root: Path, stack: contextlib.ExitStack) -> str:
    """The address of a socket in the home; a long path is reached through its folder's descriptor."""
    return f"/proc/self/fd/{_open(root / 'home' / 'app', stack)}/s"


@pytest.mark.parametrize("sandbox", each(*NOT_STOPPED))
def test_a_hostile_agent_achieves_what_the_table_says(outside: Outside, sandbox: str) -> None:
    if sandbox == "landlock standard" and is_temporary(outside.place.root):
        pytest.skip("Landlock opens /tmp with all that is below it, as this clone is")
    isolation, strength = sandbox.split()
    assert outside.attack(isolation, strength) == NOT_STOPPED[sandbox]


def test_without_a_sandbox_the_agent_achieves_nearly_everything(outside: Outside) -> None:
    """Otherwise the attempts would prove nothing."""
    kept = {"daemon", "mount"} | ({"write_system"} if os.getuid() else set())
    assert outside.attack("none", "standard") >= ATTEMPTS.keys() - kept
