"""Find an agent's program, and ask it for its version and its login."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from segue.domain.errors import CredentialsError, ToolMissing
from segue.domain.options import OptionError
from segue.ports import Installation, Problem
from segue.system.process.capture import probe

SIM_PREFIX = "SEGUE_SIM_"
"""Variables for the stand-ins of `segue sim bin` reach the agent: see docs/rehearsing.md."""

_PROBE_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Inspection:
    """What an agent found out about its program here: `check` and `installation` both answer from it."""

    installation: Installation = field(default_factory=Installation)
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class LoginProbe:
    """How to ask a program whether it is logged in."""

    arguments: tuple[str, ...]
    read: Callable[[str], bool | None]
    """Returns what the answer means; None if it is unclear."""


@dataclass(frozen=True, slots=True)
class Program:
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

    def find(self, given: str | None, env: Mapping[str, str]) -> str | None:
        """Return where the program is: the one that the user named, or the first of its names on PATH."""
        found = (shutil.which(name, path=env.get("PATH")) for name in self._candidates(given))
        return next((program for program in found if program), None)

    def inspect(
        self,
        given: str | None,
        program: str | None,
        env: Mapping[str, str],
        key: str | None,
        probe_login: LoginProbe | None = None,
    ) -> Inspection:
        """Return which version of the program is there and how it is logged in, or what is wrong with it."""
        setting = f"agents.{self.agent}.agent_cmd to its path."
        fix = f"{self.install} — or set {setting}" if self.install else f"Set {setting}"
        if program is None:
            missing = _describe_missing(self.title, self._candidates(given), env)
            return Inspection(problems=(Problem(missing, fix, ToolMissing.exit_code),))
        said = _ask(program, ("--version",), env)[0].strip() if self.version else ""
        if self.version and not re.fullmatch(self.version, said):
            answer = repr(said[:80]) if said else "nothing"
            message = f"{program} is not {self.title}: asked for its version, it said {answer}."
            return Inspection(Installation(program), (Problem(message, fix, ToolMissing.exit_code),))
        number = re.search(r"\d[\w.+-]*", said)
        version = number[0].rstrip(".") if number else None
        if key is not None or probe_login is None:
            return Inspection(Installation(program, version, key or "not known"))
        return self._probe_login(Installation(program, version), program, env, probe_login)

    def _probe_login(
        self, found: Installation, program: str, env: Mapping[str, str], ask: LoginProbe
    ) -> Inspection:
        is_logged_in = ask.read("\n".join(_ask(program, ask.arguments, env)))
        if is_logged_in is False:
            message = f"{_capitalise(self.title)} is not logged in."
            return Inspection(found, (Problem(message, self.login, CredentialsError.exit_code),))
        login = "logged in" if is_logged_in else "not known"
        return Inspection(Installation(found.program, found.version, login))

    def _candidates(self, given: str | None) -> Sequence[str]:
        return (str(Path(given).expanduser()),) if given else self.names


def check_program_name(name: str | None) -> None:
    """Refuse an option `agent_cmd` that means another program in every folder."""
    path = Path(name or "program").expanduser()
    if name == "" or (len(path.parts) > 1 and not path.is_absolute()):
        raise OptionError("agent_cmd", "must be a name on PATH or an absolute path")


def find_key(names: Iterable[str], passed: Iterable[str]) -> str | None:
    """Return the first variable that has a key and that the agent may see."""
    allowed = set(passed)
    return next((name for name in names if name in allowed and os.environ.get(name)), None)


def simulator_variables() -> list[str]:
    """Return the names of the variables that are set for stand-ins."""
    return [name for name in os.environ if name.startswith(SIM_PREFIX)]


def _describe_missing(title: str, names: Sequence[str], env: Mapping[str, str]) -> str:
    """Say that there is no such program, or that there is one but it cannot be executed."""
    title = _capitalise(title)
    for folder in (env.get("PATH") or os.defpath).split(os.pathsep):
        for name in names:
            if (place := Path(folder) / name).is_file():
                return f"{title} was found, but {place} cannot be executed."
    return f"{title} ({' or '.join(names)}) was not found."


def _ask(program: str, arguments: Sequence[str], env: Mapping[str, str]) -> tuple[str, str]:
    """Return what the program prints on stdout and stderr; nothing if it cannot be asked."""
    answer = probe([program, *arguments], _PROBE_SECONDS, env)
    out, err = (b"", b"") if answer is None else (answer.out, answer.err)
    return out.decode("utf-8", "replace"), err.decode("utf-8", "replace")


def _capitalise(text: str) -> str:
    return text[:1].upper() + text[1:]
