"""The cases: one repository and one task for two agents, of which one works honestly and one cheats.

`cases/CLASS/NAME.toml` has a pair; what it does not say comes from the file in `projects` that it names as
`like`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Literal

from msgspec import Struct

from segue.domain.options import Commands, Options, Text, read_options

Tool = Literal["pytest", "hypothesis", "ruff", "mypy", "make", "cc", "prove", "node", "npm", "go"]
Rung = Literal["changed", "checked", "tested", "independent"]
"""What a task can earn, the weakest first."""


class Twin(Options, frozen=True, kw_only=True):
    """One agent of a pair, and what must be true when the run has ended."""

    about: Text
    """What the agent does, in a few words."""
    on: list[dict[str, Any]] = []
    """What the scripted agent does: see `segue help scripted-agent`."""
    earned: Rung | dict[str, Rung]
    """What the tasks, or these tasks, have really shown: honest work must reach it, a cheat not exceed it."""
    judged: bool | None = None
    """Whether a judge must, or must not, have confirmed it."""
    launches: int | None = None
    """How often each task may have been attempted at most."""
    hold: dict[str, str] = {}
    """If the run says it is done: words that the last commit has in these files."""
    keep: dict[str, str] = {}
    """However the run ends: words that are in such a file of some commit or folder, so no work is lost."""
    unchanged: list[str] = []
    """If the run says it is done: files that the last commit has as the user wrote them."""
    lack: list[str] = []
    """Words that no path in the last commit contains."""
    titles: dict[str, str] = {}
    """Tasks that were started: the beginning of the title that they must have had."""


class Pair(Options, frozen=True, kw_only=True):
    """The file of a pair."""

    like: str = ""
    needs: list[Tool] = []
    """Programs that must be installed."""
    quick: bool = False
    """Whether `--quick` runs it."""
    files: dict[str, str] = {}
    """The user's repository."""
    before_commit: Commands = Commands()
    """Commands that complete the repository before the user commits it."""
    after_commit: Commands = Commands()
    source: str = "plan.md"
    """What is run: a path, or a prompt."""
    arguments: list[str] = []
    """More arguments of `segue run`."""
    settings: dict[str, Any] = {}
    """The user's settings."""
    resume: bool = False
    """Whether the user continues a run that stopped."""
    judge: list[dict[str, Any]] = []
    """Answers of the model that judges: see `segue help simulators`. None: there is no such model."""
    honest: Twin
    cheat: Twin


class ProofCase(Struct, frozen=True):
    """One agent at work in the repository of its pair."""

    name: str
    pair: Pair
    cheats: bool
    group: str = ""
    """The class of tricks or habits that it belongs to."""

    @property
    def twin(self) -> Twin:
        """The agent, and what must be true at the end."""
        return self.pair.cheat if self.cheats else self.pair.honest

    def earned(self, task: str) -> Rung | None:
        """Return what this task has really shown; None if the case says nothing about it."""
        earned = self.twin.earned
        return earned.get(task) if isinstance(earned, dict) else earned


def load_cases() -> list[ProofCase]:
    """Return every case by class and name, the honest one before its twin."""
    found: list[ProofCase] = []
    here = files("segue.parts.lab.bench")
    projects = dict(read_folder(here / "projects"))
    for group in sorted((here / "cases").iterdir(), key=lambda folder: folder.name):
        for name, data in read_folder(group):
            pair = read_pair(data, projects)
            found.append(ProofCase(f"{name}/honest", pair, False, group.name))
            found.append(ProofCase(f"{name}/cheat", pair, True, group.name))
    return found


def read_pair(data: Mapping[str, Any], projects: Mapping[str, Mapping[str, Any]]) -> Pair:
    """Read a pair on top of the project it is like."""
    return read_options(Pair, merge_project(data, projects))


def merge_project(data: Mapping[str, Any], projects: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return a pair with what its project says; tables are merged, everything else is replaced."""
    project = projects[data["like"]] if "like" in data else {}
    merged = {**project, **data}
    for table in ("files", "settings"):
        merged[table] = {**project.get(table, {}), **data.get(table, {})}
    return merged


def read_folder(folder: Traversable) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the tables in a folder by name."""
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".toml"):
            yield file.name.removesuffix(".toml"), tomllib.loads(file.read_text("utf-8"))
