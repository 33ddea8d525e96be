"""Find an agent's program, and ask it for its version and its login."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from segue.agents.local.launch import NOTHING, make_command
from segue.domain.errors import CredentialsError, ToolMissing
from segue.domain.job import Job
from segue.domain.options import OptionError
from segue.ports import Installation, Problem
from segue.system.isolation.policy import Places
from segue.system.process.capture import PROBE_SECONDS, Captured, probe
from segue.system.process.processes import Command, inside_environment
from segue.system.programs import find_inside, reach


class Inspection(Struct, frozen=True):
    """What an agent found out about its program here: `check` and `installation` both answer from it."""

    installation: Installation = field(default_factory=Installation)
    problems: tuple[Problem, ...] = ()


class LoginProbe(Struct, frozen=True):
    """How to ask a program whether it is logged in, and the answers that mean no and yes."""

    arguments: tuple[str, ...]
    no: str
    yes: str

    def read(self, answer: str) -> bool | None:
        """Return what the answer means; None if it is unclear."""
        if re.search(self.no, answer):
            return False
        return True if re.search(self.yes, answer) else None


class Program(Struct, frozen=True):
    """A program that has to be installed, and how to tell it from others of the same name."""

    agent: str
    """The agent's name in the settings."""
    title: str
    names: tuple[str, ...]
    install: str
    """How to install it, as the beginning of a sentence; empty if nobody knows."""
    version: str | None
    """A regular expression that matches its whole answer to `--version`; None: do not ask."""
    login: str = ""
    """How to log in, as a sentence."""
    probe: LoginProbe | None = None
    find_native: Callable[[Path], str | None] = lambda _found: None
    """Returns the program behind a launcher."""
    untold: str = ""
    """What it does not tell, though others do."""

    def find(self, given: str | None, env: Mapping[str, str]) -> str | None:
        """Return where the program is: the one that the user named, or the first of its names on PATH.

        One that agents cannot write comes first; another one is started in the sandbox alone.
        """
        names, path = self._candidates(given), env.get("PATH")
        outside = (reach().find(name, path or os.defpath) for name in names)
        found = [program for program in (*outside, *(find_inside(name, path) for name in names)) if program]
        if len(set(found)) > 1 and self.version:  # a name may be common: another program can have it
            known = frozenset(env.items())
            found.sort(key=lambda program: not _answers(program, self.version or "", known))
        return next((self.find_native(Path(program)) or program for program in found), None)

    def inspect(self, given: str | None, env: Mapping[str, str], key: str | None) -> Inspection:
        """Return which version of the program is there and how it is logged in, or what is wrong with it."""
        program = self.find(given, env)
        setting = f"agents.{self.agent}.agent_cmd to its path."
        fix = f"{self.install} — or set {setting}" if self.install else f"Set {setting}"
        if program is None:
            missing = _describe_missing(self.title, self._candidates(given), env)
            return Inspection(problems=(Problem(missing, fix, ToolMissing.exit_code),))
        if reach().has(program):  # it is started in the sandbox alone
            return Inspection(Installation(program, login=key or "not known"))
        said = ""
        if self.version:
            answer = _ask(program, ("--version",), env)
            said = answer.out.decode("utf-8", "replace").strip()
            if not re.fullmatch(self.version, said):
                problem = Problem(self._doubt(program, said, answer.in_time), fix, ToolMissing.exit_code)
                return Inspection(Installation(program), (problem,))
        number = re.search(r"\d[\w.+-]*", said)
        version = number[0].rstrip(".") if number else None
        if key is not None or self.probe is None:
            return Inspection(Installation(program, version, key or "not known"))
        answer = _ask(program, self.probe.arguments, env)
        is_logged_in = self.probe.read((answer.out + b"\n" + answer.err).decode("utf-8", "replace"))
        if is_logged_in is False:
            message = f"{_capitalise(self.title)} is not logged in."
            problem = Problem(message, self.login, CredentialsError.exit_code)
            return Inspection(Installation(program, version), (problem,))
        return Inspection(Installation(program, version, "logged in" if is_logged_in else "not known"))

    def _doubt(self, program: str, said: str, in_time: bool) -> str:
        """Say why this may be another program."""
        if not in_time:
            return f"{program} was asked for its version, and did not answer within {PROBE_SECONDS:g} s."
        answer = repr(said[:80]) if said else "nothing"
        return f"{program} is not {self.title}: asked for its version, it said {answer}."

    def _candidates(self, given: str | None) -> Sequence[str]:
        return (str(Path(given).expanduser()),) if given else self.names


class InstalledProgram:
    """The program of one agent on this machine: what the agents of all vendors do with theirs."""

    def __init__(
        self,
        program: Program,
        given: str | None,
        passed: Callable[[], list[str]],
        key: Callable[[], str | None],
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """`passed` returns the variables that it may see; `key` the one that replaces a login, if any."""
        self._program, self._given = program, given
        self._passed, self._key, self._variables = passed, key, variables or {}
        self._inspected: Inspection | None = None

    def path(self) -> str:
        """Return where the program is, or the name under which it would be found."""
        found = self._program.find(self._given, inside_environment(self._passed()))
        return found or self._given or self._program.names[0]

    def command(
        self,
        job: Job,
        arguments: Iterable[str],
        variables: Mapping[str, str],
        own: Places = NOTHING,
        stdin: str | None = None,
        turn_end: str = "",
    ) -> Command:
        """Return the command that does a job, as `make_command` does."""
        given = {**self._variables, **variables}
        return make_command(job, (self.path(), *arguments), self._passed(), given, stdin, own, turn_end)

    def check(self) -> list[Problem]:
        """Return what is wrong with the program or its login; asked once."""
        return list(self._inspection.problems)

    def installation(self) -> Installation:
        """Return where the program is, its version, and how it is logged in; asked once."""
        return replace(self._inspection.installation, untold=self._program.untold)

    @property
    def _inspection(self) -> Inspection:
        # Not a cached_property: before Python 3.12 all instances share its lock and would be asked in turn.
        if self._inspected is None:
            env = inside_environment(self._passed(), self._variables)
            self._inspected = self._program.inspect(self._given, env, self._key())
        return self._inspected


def check_program_name(name: str | None) -> None:
    """Refuse an option `agent_cmd` that means another program in every folder."""
    path = Path(name or "program").expanduser()
    if name == "" or (len(path.parts) > 1 and not path.is_absolute()):
        raise OptionError("agent_cmd", "must be a name on PATH or an absolute path")


def find_key(names: Iterable[str], passed: Iterable[str]) -> str | None:
    """Return the first variable that has a key and that the agent may see."""
    allowed = set(passed)
    return next((name for name in names if name in allowed and os.environ.get(name)), None)


def in_home(*names: str) -> tuple[Path, ...]:
    """Return places of an agent in the user's home; the variables of XDG move some of them."""
    moved = {
        ".config/": os.environ.get("XDG_CONFIG_HOME"),
        ".local/share/": os.environ.get("XDG_DATA_HOME"),
        ".local/state/": os.environ.get("XDG_STATE_HOME"),
    }
    found = []
    for name in names:
        start = next((start for start, place in moved.items() if place and name.startswith(start)), None)
        found.append(Path(moved[start] or "", name.removeprefix(start)) if start else Path.home() / name)
    return tuple(found)


def _describe_missing(title: str, names: Sequence[str], env: Mapping[str, str]) -> str:
    """Say that there is no such program, or that there is one but it cannot be executed."""
    title = _capitalise(title)
    for folder in (env.get("PATH") or os.defpath).split(os.pathsep):
        for name in names:
            with suppress(PermissionError):  # a folder on PATH that may not be read
                if (place := Path(folder) / name).is_file():
                    return f"{title} was found, but {place} cannot be executed."
    return f"{title} ({' or '.join(names)}) was not found."


def _ask(program: str, arguments: Sequence[str], env: Mapping[str, str]) -> Captured:
    """Return what the program answers; nothing if it cannot be asked."""
    # Not in the current folder: programs read settings of the project there, which nobody may have looked at.
    env = {**env, "PATH": reach().cut(env.get("PATH", ""))}
    answer = probe([program, *arguments], env=env, cwd=Path(Path.cwd().anchor))
    return answer or Captured(1, b"", b"")


@cache
def _answers(program: str, version: str, env: frozenset[tuple[str, str]]) -> bool:
    """Return whether a program says a version that matches; one of the sandbox is not asked."""
    if reach().has(program):
        return False
    said = _ask(program, ("--version",), dict(env)).out.decode("utf-8", "replace").strip()
    return re.fullmatch(version, said) is not None


def _capitalise(text: str) -> str:
    return text[:1].upper() + text[1:]
