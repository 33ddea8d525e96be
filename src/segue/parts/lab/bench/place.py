"""The place of a case: a repository, a home and Segue's state, all of them new, in one folder."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from segue.parts.lab.bench.cases import ProofCase
from segue.system.process.capture import Captured, capture, inside_environment
from segue.system.process.segue import frozen, segue_command

USER_COMMIT = "What the user wrote"
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
        own = {name: value for name, value in inside_environment().items() if not _is_settled(name)}
        path = own.get("PATH", "")
        if not frozen():  # the Python that runs Segue usually has pytest, if any has
            path = f"{Path(sys.executable).parent}{os.pathsep}{path}"
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
    (folder / "agent.toml").write_text(write_script(play_once(case)), "utf-8")
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
    commands: Sequence[Sequence[str]] = [
        ("git", "init", "--quiet"),
        *case.pair.before_commit,
        ("git", "add", "--all"),
        ("git", "commit", "--quiet", "--allow-empty", "-m", USER_COMMIT),
        *case.pair.after_commit,
    ]
    for command in commands:
        done = await place.run(*command)
        if done.exit_code:
            said = (done.err or done.out).decode("utf-8", "replace")
            raise SetupFailed(f"the repository cannot be set up: {' '.join(command)}: {said}")


def play_once(case: ProofCase) -> list[dict[str, Any]]:
    """Return the agent's script without repeated edits: an agent that is sent back has nothing to add."""
    if case.pair.resume:  # a run that stopped is started again, and so is its agent
        return case.twin.on
    entries: list[dict[str, Any]] = []
    for entry in case.twin.on:
        if "attempt" in entry or not {"edit", "append"} & set(entry):
            entries.append(entry)
            continue
        rest = {key: value for key, value in entry.items() if key in ("task", "phase")}
        entries += [{**entry, "attempt": 1}, {**rest, "say": "There is nothing to add: it is complete."}]
    return entries


def write_script(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return a script of the scripted agent as TOML."""
    return "\n".join(line for entry in entries for line in ("[[on]]", *_lines(entry), ""))


def _lines(table: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Write a table as TOML with dotted keys; JSON's texts, numbers and lists are TOML's as well."""
    for name, value in table.items():
        key = prefix + json.dumps(name, ensure_ascii=False)
        if isinstance(value, Mapping):
            yield from _lines(value, f"{key}.")
        else:
            yield f"{key} = {json.dumps(value, ensure_ascii=False)}"


def _is_settled(name: str) -> bool:
    return name.startswith(("XDG_", "GIT_", "SEGUE_"))
