"""The cases of `bench.proof`: one repository and one task for an honest and a cheating agent.

`bench/pairs/CLASS/NAME.toml` has a pair; what it does not say comes from the file in `bench/projects` that it
names as `like`. `bench/exams/NAME.toml` has a pair with what the writer of independent tests does.
"""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.options import Commands, Options, Text, read_options
from segue.system.process.capture import Captured, capture, inside_environment
from segue.system.process.segue import segue_command

BENCH = Path(__file__).parent
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
    """Answers of the model that judges. None: there is no such model."""
    group: str = ""
    """The class of an exam's pair."""
    exam: list[dict[str, Any]] = []
    """What the writer of independent tests does; it sees neither twin."""
    examined: Rung = "independent"
    """What the honest twin must reach with the exam."""
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
    projects = dict(_read_folder(BENCH / "projects"))
    return [
        ProofCase(f"{name}/{'cheat' if cheats else 'honest'}", read_pair(data, projects), cheats, group.name)
        for group in sorted((BENCH / "pairs").iterdir())
        for name, data in _read_folder(group)
        for cheats in (False, True)
    ]


def load_exams() -> list[ProofCase]:
    """Return the cases in which a second agent writes tests that the worker never sees."""
    projects = dict(_read_folder(BENCH / "projects"))
    found = []
    for name, data in _read_folder(BENCH / "exams"):
        pair = read_pair(data, projects)
        settings = {
            **pair.settings,
            "limits": {"resolutions": 2, "phase_timeout": 60},
            "proof": {"independent": True},
        }
        honest, cheat = (
            replace(twin, on=_write_exam(pair, twin), launches=None) for twin in (pair.honest, pair.cheat)
        )
        examined = replace(pair, settings=settings, honest=replace(honest, earned=pair.examined), cheat=cheat)
        found += [
            ProofCase(f"{name}/honest", examined, False, pair.group),
            ProofCase(f"{name}/cheat", examined, True, pair.group),
        ]
    return found


def _write_exam(pair: Pair, twin: Twin) -> list[dict[str, Any]]:
    """Return the script of the writer and of the worker."""
    writer = [{**entry, "phase": "independent"} for entry in pair.exam]
    writer.append({"phase": "independent", "say": "There is nothing more to ask."})
    worker = []
    for entry in twin.on:
        once = {"attempt": 1} if {"edit", "append"} & set(entry) else {}
        worker.append({"phase": "execute", **once, **entry})
    return [*writer, *worker, {"say": "There is nothing to add: it is complete."}]


def read_pair(data: Mapping[str, Any], projects: Mapping[str, Mapping[str, Any]]) -> Pair:
    """Read a pair on top of the project it is like; tables are merged, everything else is replaced."""
    project = projects[data["like"]] if "like" in data else {}
    merged = {**project, **data}
    for table in ("files", "settings"):
        merged[table] = {**project.get(table, {}), **data.get(table, {})}
    return read_options(Pair, merged)


def _read_folder(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the tables in a folder by name."""
    for file in sorted(folder.glob("*.toml")):
        yield file.stem, tomllib.loads(file.read_text("utf-8"))


_TIMEOUT = 300.0
_GIT_CONFIG = """\
[user]
    name = User
    email = user@localhost
[init]
    defaultBranch = main
[protocol "file"]
    allow = always
[gc]
    auto = 0
"""
_SETTINGS = {
    "agent": "scripted",
    "limits": {"resolutions": 0, "phase_timeout": 60},
    "rls": {"enabled": "auto"},
}


class SetupFailed(Exception):
    """The repository of a case cannot be made here."""


class CasePlace(Struct, frozen=True):
    """The folder of one case."""

    folder: Path

    @property
    def repo(self) -> Path:
        """The user's repository."""
        return self.folder / "repo"

    def environment(self) -> dict[str, str]:
        """Return the environment of a user who has nothing but what is in the folder."""
        settled = ("XDG_", "GIT_", "SEGUE_")
        own = {name: value for name, value in inside_environment().items() if not name.startswith(settled)}
        # The Python that runs Segue usually has pytest, if any has.
        path = f"{Path(sys.executable).parent}{os.pathsep}{own.get('PATH', '')}"
        homes = {"HOME": "home", "XDG_CONFIG_HOME": "config", "XDG_STATE_HOME": "state"}
        return {
            **own,
            **{name: str(self.folder / folder) for name, folder in homes.items()},
            "PATH": path,
            "CASE_MODEL_KEY": "any key will do",
            "SEGUE_TRUST": "1",  # the user of a case wrote the settings
            "SEGUE_ISOLATION": "none",  # what decides about work must do without the help of the sandbox
        }

    async def run(self, *argv: str) -> Captured:
        """Run a command in the repository as the user."""
        return await capture(argv, self.repo, self.environment(), timeout=_TIMEOUT)

    async def segue(self, *arguments: str) -> Captured:
        """Run Segue in the repository as the user."""
        program, *words = segue_command()
        # As the installed command does: modules in the current folder are not imported.
        return await self.run(program, *(["-P"] if words else []), *words, *arguments)

    async def git(self, *arguments: str) -> str:
        """Return what git prints; nothing if it fails."""
        done = await self.run("git", *arguments)
        return done.out.decode("utf-8", "replace") if done.exit_code == 0 else ""


async def make_place(case: ProofCase, folder: Path, judge_url: str | None) -> CasePlace:
    """Write the repository of a case and commit it; write the user's settings and the agent's script."""
    place = CasePlace(folder)
    for path in (place.repo, folder / "home", folder / "config" / "segue"):
        path.mkdir(parents=True)
    (folder / "home" / ".gitconfig").write_text(_GIT_CONFIG, "utf-8")
    script = "\n".join(line for entry in play_once(case) for line in ("[[on]]", *_lines(entry), ""))
    (folder / "agent.toml").write_text(script, "utf-8")
    scripted = {"scripted": {"script": str(folder / "agent.toml")}}
    settings = {**_SETTINGS, **case.pair.settings}
    settings["agents"] = {**case.pair.settings.get("agents", {}), **scripted}
    if judge_url:
        settings["judge"] = {"base_url": f"{judge_url}/v1", "api_key_env": "CASE_MODEL_KEY"}
    (folder / "config" / "segue" / "config.toml").write_text("\n".join(_lines(settings)) + "\n", "utf-8")
    for name, text in case.pair.files.items():
        path = place.repo / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    await _commit(case, place)
    return place


async def _commit(case: ProofCase, place: CasePlace) -> None:
    commit = ("git", "commit", "--quiet", "--allow-empty", "-m", "What the user wrote")
    before = (("git", "init", "--quiet"), *case.pair.before_commit, ("git", "add", "--all"))
    for command in (*before, commit, *case.pair.after_commit):
        done = await place.run(*command)
        if done.exit_code:
            raise SetupFailed(f"{' '.join(command)}: {(done.err or done.out).decode('utf-8', 'replace')}")


def play_once(case: ProofCase) -> list[dict[str, Any]]:
    """Return the agent's script without repeated edits: an agent that is sent back has nothing to add."""
    if case.pair.resume or case.pair.exam:  # such a run is started again, or says itself what is done once
        return case.twin.on
    entries: list[dict[str, Any]] = []
    for entry in case.twin.on:
        if "attempt" in entry or not {"edit", "append"} & set(entry):
            entries.append(entry)
            continue
        rest = {key: value for key, value in entry.items() if key in ("task", "phase")}
        entries += [{**entry, "attempt": 1}, {**rest, "say": "There is nothing to add: it is complete."}]
    return entries


def _lines(table: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Write a table as TOML with dotted keys; JSON's texts, numbers and lists are TOML's as well."""
    for name, value in table.items():
        key = prefix + json.dumps(name, ensure_ascii=False)
        if isinstance(value, Mapping):
            yield from _lines(value, f"{key}.")
        else:
            yield f"{key} = {json.dumps(value, ensure_ascii=False)}"
