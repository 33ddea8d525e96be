"""Finds the program of an agent that is installed with npm, and says what to do when it is not there."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator

from segue.domain.errors import ToolMissing
from segue.ports import Problem
from segue.system.probe import probe

PROBE_SECONDS = 20.0


def _command(name: str) -> str:
    path = Path(name).expanduser()
    if not name or (len(path.parts) > 1 and not path.is_absolute()):
        raise ValueError("must be a name on PATH or an absolute path")
    return str(path)


ProgramName = Annotated[str, AfterValidator(_command)]
"""A name on PATH or an absolute path."""


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

    def problems(self, given: str | None, program: str | None, env: Mapping[str, str]) -> list[Problem]:
        """Whether it is missing, or another program."""
        fix = f"Install it: npm install -g {self.package} — or set agents.{self.name}.agent_cmd to its path."
        if program is None:
            wanted = given or self.name
            return [Problem(f"{self.title} ({wanted}) was not found.", fix, ToolMissing.exit_code)]
        answer = probe([program, "--version"], PROBE_SECONDS, env)
        said = "" if answer is None else answer.out.decode("utf-8", "replace").strip()
        if re.fullmatch(self.version, said):
            return []
        told = repr(said[:80]) if said else "nothing"
        message = f"{program} is not {self.title}: asked for its version, it said {told}."
        return [Problem(message, fix, ToolMissing.exit_code)]
