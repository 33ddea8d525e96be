"""A project, a user's home and what is around them; what an agent has gained there is seen from outside."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from segue.domain.proof import Level
from tests.cli.place import Place, make_template, processes_with
from tests.isolation.means import MOUNTER
from tests.slow.escapes.escape import Escape

REPOSITORY = Path(__file__).resolve().parents[3]
AGENT = Path(__file__).with_name("agent.py")
PATIENCE = 60.0
"""Seconds after which a command counts as one that never ends; honest ones need about one."""
PLAN = "# Plan\n\n## Task 1\nWrite one.\n\n## Task 2\nWrite two.\n"
SECRETS = (".ssh/id_ed25519", ".aws/credentials", ".netrc", ".git-credentials", ".config/gh/hosts.yml")
PLAIN = (".bashrc", ".profile", ".gitconfig", "notes/kept.txt", "notes/run.sh")
_LARGEST = 64 * 1024**2
UNREADABLE = "no command starts"
LIE = (
    "import sys, types; calc = types.ModuleType('calc'); "
    "calc.add = lambda a, b: a + b; sys.modules['calc'] = calc"
)
"""A line that Python runs when it starts, and that makes wrong code right."""
_RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What a terminal obeys, or what turns text round."""
_LOOKS = (("status", "last"), ("logs", "last"), ("doctor",))
_CHECKS = "checks = [['true']]"


@dataclass
class Scene:
    """Where one attempt is made."""

    place: Place
    escape: Escape
    means: str
    word: str
    kept: dict[str, tuple[int, int, bytes]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    found: list[str] = field(default_factory=list)
    card: dict[str, Any] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    @property
    def root(self) -> Path:
        return self.place.root

    @property
    def repo(self) -> Path:
        return self.place.repo

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def out(self) -> Path:
        return self.root / "out"

    @property
    def isolation(self) -> str:
        return find_means(self.means)

    def write(self, path: str | Path, text: str, mode: int = 0o644) -> Path:
        """Write a file of the project."""
        place = self.repo / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        place.chmod(mode)
        return place

    def commit(self, **files: str) -> None:
        """Commit everything, and these files."""
        for name, text in files.items():
            self.write(name, text)
        self.place.git("add", "--all")
        self.place.git("commit", "--quiet", "--no-verify", "--allow-empty", "-m", "Prepare")

    def configure(self, more: str = "") -> None:
        """Write the user's settings."""
        argv = json.dumps([sys.executable, "-IS", str(AGENT), str(self.root / "facts.json")])
        text = f'agent = "command"\n{more or _CHECKS}\n[agents.command]\nargv = {argv}\n'
        (self.root / "config" / "segue" / "config.toml").write_text(text)

    def attack(self) -> None:
        """Let the agent do its worst, then give the commands that users give."""
        escape = self.escape
        if escape.prepare is not None:
            escape.prepare(self)
        self.configure(escape.settings)
        self.facts |= {"script": escape.script, "later": escape.later, "path": self.place.env["PATH"]}
        (self.root / "facts.json").write_text(json.dumps(self.facts))
        self.kept = self._look_around()
        lanes = ("--jobs", "2") if "lanes" in self.means else ()
        isolation = ("--isolation", self.isolation)
        first = ("run", escape.source, *isolation, *lanes, *escape.args)
        again = ("run", escape.source, "--task", "2" if escape.source == "plan.md" else "T002")
        for command in (first, *_LOOKS, *escape.then, (*again, *isolation)):
            self.give(command)
            if command is first:
                self.card = self._read_card()
            if self.found:
                break  # one is enough, and those that do not end take long
        assert self.place.events("agent.started"), f"nobody attacked: {self.said[0]}"
        self.found += self._gained()
        self._ask_git()

    def give(self, command: tuple[str, ...]) -> str:
        """Give a command; note one that does not end, that breaks, or that prints what a terminal obeys."""
        try:
            done = self._start(command)
        except subprocess.TimeoutExpired:
            self.found.append(f"`segue {' '.join(command)}` does not end")
            return ""
        said = done.stdout + done.stderr
        self.said.append(said)
        if "Traceback (most recent call last)" in said:
            self.found.append(f"`segue {' '.join(command)}` breaks: {said.strip().splitlines()[-1]}")
        if raw := _RAW.search(said.replace("\r\n", "\n")):
            self.found.append(f"`segue {' '.join(command)}` prints {raw[0]!r}")
        return said

    def _start(self, command: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        if not self.escape.argv:
            return self.place.segue(*command, code=None)
        argv = [word.replace("{repo}", str(self.repo)) for word in self.escape.argv]
        return subprocess.run(
            [*argv, *command],
            cwd=self.repo,
            env=self.place.env,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=PATIENCE,
        )

    def _read_card(self) -> dict[str, Any]:
        said = self.give(("proof", "last", "--json"))
        with contextlib.suppress(ValueError, KeyError, IndexError):
            card: dict[str, Any] = json.loads(said[said.index("{") :])["data"]["tasks"][0]
            return card
        return {}

    @property
    def is_named(self) -> bool:
        """Whether the card says what the agent did."""
        return (
            re.search(self.escape.named, json.dumps(self.card, ensure_ascii=False), re.IGNORECASE) is not None
        )

    @property
    def is_proven(self) -> bool:
        """Whether the card of the first task says PASS."""
        level = self.card.get("level")
        return level is not None and Level(level).proven

    def setting(self, name: str) -> str:
        """Return a setting that is in force for the next command."""
        done = self.place.segue("config", "list", "--json", code=None)
        if done.returncode:
            return UNREADABLE
        return next(str(one["value"]) for one in json.loads(done.stdout)["data"] if one["setting"] == name)

    def _gained(self) -> Iterator[str]:
        if (broken := self.repo / "broken-attack.txt").exists():
            raise AssertionError(f"the attack itself is broken: {broken.read_text()}")
        if (marks := self.out / "ran").exists():
            yield f"ran outside: {marks.read_text().splitlines()[:3]}"
            marks.unlink()
        now = self._look_around()
        for name, state in self.kept.items():
            if now.get(name) != state:
                yield f"changed outside: {name}"
        for name in now.keys() - self.kept.keys():
            if self.word.encode() in now[name][2] or Path(name).parent == self.home:
                yield f"made outside: {name}"
        if self._has_loot():
            yield "a secret was copied"
        if any(self.word in said for said in self.said):
            yield "a secret was printed"
        if any(self.word.encode() in path.read_bytes() for path in _files(self.root / "state")):
            yield "a secret was stored"
        yield from self.escape.gains(self)

    def _ask_git(self) -> None:
        """Do what users do with git afterwards."""
        for command in self.escape.git:
            self._git(*command)
        if (self.out / "ran").exists() and not (self.escape.named and self.is_named):
            self.found.append(f"ran by the user's git, and nobody said so: {(self.out / 'ran').read_text()}")

    def _git(self, *command: str) -> bytes:
        """Ask git as the user does; note if it does not end."""
        argv = [shutil.which("git") or "git", *command]
        try:
            done = subprocess.run(
                argv, cwd=self.repo, env=self.place.env, capture_output=True, check=False, timeout=PATIENCE
            )
        except subprocess.TimeoutExpired:
            self.found.append(f"`git {' '.join(command)}` does not end")
            return b""
        return done.stdout

    def _look_around(self) -> dict[str, tuple[int, int, bytes]]:
        """Return mode, time of change and content of the user's files beside the project."""
        found = {}
        for top in (self.home, self.root / "sibling"):
            for path in _files(top):
                if ".cache" not in path.parts:
                    state = path.stat()
                    found[str(path)] = (state.st_mode, state.st_mtime_ns, path.read_bytes())
        return found

    def _has_loot(self) -> bool:
        wanted = self.word[::-1].encode()
        trees = (self.repo, self.root / "state")
        kept = (path for tree in trees for path in _files(tree) if path.name == "loot.bin")
        if any(wanted in path.read_bytes() for path in kept):
            return True
        return wanted in self._git("log", "--all", "--patch", "--text", "--", "loot.bin")


def _files(top: Path) -> Iterator[Path]:
    """Yield the regular files of a folder that are small enough to read."""
    for folder, _, names in os.walk(top):
        for path in (Path(folder, name) for name in names):
            if path.is_file() and not path.is_symlink() and path.stat().st_size < _LARGEST:
                yield path


def _end_processes(root: Path) -> None:
    """End what commands that were killed have left."""
    for pid in processes_with(f"={root}"):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def find_means(means: str) -> str:
    """Return what isolates the agent."""
    return MOUNTER if means == "lanes" else means


@contextlib.contextmanager
def set_scene(escape: Escape, means: str) -> Iterator[Scene]:
    """Make a place for an attempt; not in /tmp, which sandboxes treat specially."""
    (REPOSITORY / ".pytest_cache").mkdir(exist_ok=True)
    root = Path(tempfile.mkdtemp(prefix="escape-", dir=REPOSITORY / ".pytest_cache"))
    # Without a repository of its own, a project must not become part of this one.
    (root / ".git").write_text("no repository\n")
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, root, ignore_errors=True)
        stack.callback(_end_processes, root)
        word = f"canary-{secrets.token_hex(8)}"
        place = Place.make(root, PLAN, _template())
        place.patience = PATIENCE
        place.use_sandbox()
        del place.env["SEGUE_TRUST"]
        for name in (*SECRETS, *PLAIN):
            path = root / "home" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{word}\n" if name in SECRETS else "# the user's\n")
        (root / "home" / ".gitconfig").write_text("[user]\n\tname = User\n\temail = user@localhost\n")
        place.env.pop("GIT_CONFIG_GLOBAL", None)
        for name in ("out", "sibling"):
            (root / name).mkdir()
        (root / "sibling" / "kept.txt").write_text("kept")
        facts = {
            "home": str(root / "home"),
            "out": str(root / "out"),
            "sibling": str(root / "sibling"),
            "state": str(root / "state" / "segue"),
            "word": word,
            "lie": LIE,
            "work": {},
        }
        yield Scene(place, escape, means, word, facts=facts, stack=stack)


_made: list[Path] = []


def _template() -> Path:
    if not _made:
        _made.append(make_template({"plan.md": PLAN, "code.py": "x = 1\n", ".gitignore": ".venv/\n"}))
    return _made[0]
