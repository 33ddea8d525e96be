"""Find an agent's program, and ask it for its version and its login."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from segue.agents.local.launch import NOTHING, make_command
from segue.domain.errors import CredentialsError, ToolMissing
from segue.domain.job import Job
from segue.domain.options import OptionError
from segue.ports import UNKNOWN_LOGIN, Installation, Problem
from segue.system.process.capture import PROBE_SECONDS, Captured, probe
from segue.system.process.processes import Command, inside_environment
from segue.system.programs import find_inside, reach
from segue.system.sandbox.policy import Places


class Program(Struct, frozen=True):
    """A program that has to be installed, and how to tell it from others of the same name."""

    agent: str
    """The agent's name in the settings."""
    title: str
    names: tuple[str, ...]
    install: str
    """How to install it, as the beginning of a sentence; empty if that is not known."""
    version: str | None
    """A regular expression that matches its whole answer to `--version`; None: do not ask."""
    login: str = ""
    """How to log in, as a sentence."""
    ask_login: tuple[str, ...] = ()
    """The arguments with which it says whether it is logged in."""
    logged_out: str = ""
    """A regular expression for an answer that means no."""
    logged_in: str = ""
    """A regular expression for an answer that means yes."""
    untold: str = ""
    """What it does not tell, though others do."""


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
        self._inspected: tuple[Installation, list[Problem]] | None = None

    def path(self) -> str:
        """Return where the program is, or the name under which it would be found."""
        return self._find(inside_environment(self._passed())) or self._names()[0]

    def command(
        self,
        job: Job,
        arguments: Iterable[str],
        variables: Mapping[str, str],
        own: Places = NOTHING,
        stdin: str | None = None,
    ) -> Command:
        """Return the command that does a job, as `make_command` does."""
        given = {**self._variables, **variables}
        return make_command(job, (self.path(), *arguments), self._passed(), given, stdin, own)

    def check(self) -> list[Problem]:
        """Return what is wrong with the program or its login; asked once."""
        return self._inspect()[1]

    def installation(self) -> Installation:
        """Return where the program is, its version, and how it is logged in; asked once."""
        return replace(self._inspect()[0], untold=self._program.untold)

    def _names(self) -> Sequence[str]:
        return (str(Path(self._given).expanduser()),) if self._given else self._program.names

    def _find(self, env: Mapping[str, str]) -> str | None:
        """Return where the program is; one that agents can write comes last: it runs in the sandbox alone."""
        path = env.get("PATH")
        outside = (reach().find(name, path or os.defpath) for name in self._names())
        inside = (find_inside(name, path) for name in self._names())
        return next((program for program in (*outside, *inside) if program), None)

    def _inspect(self) -> tuple[Installation, list[Problem]]:
        # Not a cached_property: before Python 3.12 all instances share its lock and would be asked in turn.
        if self._inspected is None:
            installation, problem = self._ask(inside_environment(self._passed(), self._variables))
            self._inspected = installation, [problem] if problem else []
        return self._inspected

    def _ask(self, env: Mapping[str, str]) -> tuple[Installation, Problem | None]:
        """Return which version of the program is there and how it is logged in, or what is wrong with it."""
        asked, program, key = self._program, self._find(env), self._key()
        title = f"{asked.title[:1].upper()}{asked.title[1:]}"
        setting = f"agents.{asked.agent}.agent_cmd to its path."
        fix = f"{asked.install} — or set {setting}" if asked.install else f"Set {setting}"
        if program is None:
            message = _describe_missing(title, self._names(), env)
            return Installation(), Problem(message, fix, ToolMissing.exit_code)
        if reach().has(program):  # it is started in the sandbox alone
            return Installation(program, login=key or UNKNOWN_LOGIN), None
        answer = _call(program, ("--version",), env) if asked.version else Captured(0, b"", b"")
        said = answer.out.decode("utf-8", "replace").strip()
        # A program that the user names is believed to be what it is.
        if asked.version and not self._given and not re.fullmatch(asked.version, said):
            words = repr(said[:80]) if said else "nothing"
            message = f"{program} is not {asked.title}: asked for its version, it said {words}."
            if not answer.in_time:
                message = (
                    f"{program} was asked for its version, and did not answer within {PROBE_SECONDS:g} s."
                )
            return Installation(program), Problem(message, fix, ToolMissing.exit_code)
        number = re.search(r"\d[\w.+-]*", said)
        version = number[0].rstrip(".") if number else None
        if key is not None or not asked.ask_login:
            return Installation(program, version, key or UNKNOWN_LOGIN), None
        answer = _call(program, asked.ask_login, env)
        said = (answer.out + b"\n" + answer.err).decode("utf-8", "replace")
        if re.search(asked.logged_out, said):
            problem = Problem(f"{title} is not logged in.", asked.login, CredentialsError.exit_code)
            return Installation(program, version), problem
        is_logged_in = re.search(asked.logged_in, said)
        return Installation(program, version, "logged in" if is_logged_in else UNKNOWN_LOGIN), None


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
    places = []
    for name in names:
        start = next((start for start, place in moved.items() if place and name.startswith(start)), None)
        places.append(Path(moved[start] or "", name.removeprefix(start)) if start else Path.home() / name)
    return tuple(places)


def _describe_missing(title: str, names: Sequence[str], env: Mapping[str, str]) -> str:
    """Say that there is no such program, or that there is one but it cannot be executed."""
    for folder in (env.get("PATH") or os.defpath).split(os.pathsep):
        for name in names:
            with suppress(PermissionError):  # a folder on PATH that may not be read
                if (place := Path(folder) / name).is_file():
                    return f"{title} was found, but {place} cannot be executed."
    return f"{title} ({' or '.join(names)}) was not found."


def _call(program: str, arguments: Sequence[str], env: Mapping[str, str]) -> Captured:
    """Return what the program answers; nothing if it cannot be asked."""
    # Not in the current folder: programs read settings of the project there, which may not be trusted.
    env = {**env, "PATH": reach().cut(env.get("PATH", ""))}
    answer = probe([program, *arguments], env=env, cwd=Path(Path.cwd().anchor))
    return answer or Captured(1, b"", b"")
