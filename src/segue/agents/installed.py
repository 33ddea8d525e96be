"""Finds the program of an agent that is installed with npm, and says what to do when it is not there."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator

from segue.domain.errors import ToolMissing
from segue.ports import Installation, Problem
from segue.system.process.capture import probe

PROBE_SECONDS = 20.0


def _command(name: str) -> str:
    path = Path(name).expanduser()
    if not name or (len(path.parts) > 1 and not path.is_absolute()):
        raise ValueError("must be a name on PATH or an absolute path")
    return str(path)


ProgramName = Annotated[str, AfterValidator(_command)]
"""A name on PATH or an absolute path."""


@dataclass(frozen=True, slots=True)
class Examined:
    """What an agent has found out about itself here: `check` and `installation` both answer from it."""

    installation: Installation = field(default_factory=Installation)
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Installable:
    """A program that npm installs, and how to tell it from others of the same name."""

    title: str
    name: str
    package: str
    version: str
    """A regular expression that all it says about its version fits."""

    def find(self, given: str | None, env: Mapping[str, str]) -> str | None:
        """Where it is: what the user named, or its name on PATH."""
        return shutil.which(given or self.name, path=env.get("PATH"))

    def examine(self, given: str | None, program: str | None, env: Mapping[str, str]) -> Examined:
        """Where it is and in which version; or whether it is missing, or another program."""
        fix = f"Install it: npm install -g {self.package} — or set agents.{self.name}.agent_cmd to its path."
        if program is None:
            missing = not_found(self.title, [given or self.name], env)
            return Examined(problems=(Problem(missing, fix, ToolMissing.exit_code),))
        answer = probe([program, "--version"], PROBE_SECONDS, env)
        said = "" if answer is None else answer.out.decode("utf-8", "replace").strip()
        if re.fullmatch(self.version, said):
            return Examined(Installation(program, version_in(said)))
        told = repr(said[:80]) if said else "nothing"
        message = f"{program} is not {self.title}: asked for its version, it said {told}."
        return Examined(Installation(program), (Problem(message, fix, ToolMissing.exit_code),))


def version_in(said: str) -> str | None:
    """The number in what a program says about its version."""
    found = re.search(r"\d[\w.+-]*", said)
    return found[0] if found else None


def not_found(title: str, names: Sequence[str], env: Mapping[str, str]) -> str:
    """Say that there is no such program, or that there is one but it cannot be executed."""
    for folder in (env.get("PATH") or os.defpath).split(os.pathsep):
        for name in names:
            if (place := Path(folder) / name).is_file():
                return f"{title} was found, but {place} cannot be executed."
    return f"{title} ({' or '.join(names)}) was not found."


def key_set(names: Iterable[str], passed: Iterable[str]) -> str | None:
    """The first variable that holds a key and that the agent may see."""
    allowed = set(passed)
    return next((name for name in names if name in allowed and os.environ.get(name)), None)
