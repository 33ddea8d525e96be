"""Wires the guard of a run: which files are its contract, and where they are kept."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from segue.domain.events import ContractMade
from segue.domain.options import PROJECT_FILES
from segue.domain.task import Task
from segue.proof.contract import Contract, ContractFile
from segue.proof.guard import LaunchGuard
from segue.runtime.open import OpenRun
from segue.system.git.folders import common_dir
from segue.system.git.guard import GitGuard
from segue.system.git.repository import Repository
from segue.system.isolation.policy import expand_places


def make_guard(opened: OpenRun, repo: Repository | None = None, lane: int = 0) -> LaunchGuard:
    """Return what watches over the launches of a run, in its own work tree or in that of a lane."""
    folder, repo = opened.app.guard_folder(opened.run.id), repo or opened.repo
    kept = folder / "kept"
    git = None
    if not opened.parts.cloud:
        sealed = opened.parts.services.isolation.keeps_git
        git = GitGuard(repo, common_dir(repo.git_dir), kept, sealed=sealed)
    files = () if opened.parts.cloud else tuple(dict.fromkeys(_contract_files(opened, repo.root.resolve())))
    place = folder / f"lane-{lane}" if lane else folder
    contract = Contract(kept, files, opened.source.look)
    return LaunchGuard(place, git, contract, () if opened.parts.cloud else _places(opened, repo.root))


def list_contract(opened: OpenRun) -> dict[str, str]:
    """Return the files of the contract as a branch has them, by path, each with what it is."""
    home = Path(opened.spec.repo).resolve()
    real = {file.path.resolve(): file.subject for file in _contract_files(opened, home)}
    return {
        path.relative_to(home).as_posix(): subject
        for path, subject in real.items()
        if path.is_relative_to(home)
    }


def digest_tasks(tasks: Iterable[Task]) -> str:
    """Return what tells these tasks, their criteria and their kinds from others."""
    digest = hashlib.sha256()
    for task in tasks:
        criteria = [f"{one.key}: {one.text}" for one in task.criteria]
        digest.update("\0".join((task.key, task.text, task.kind, *criteria, "")).encode("utf-8", "replace"))
    return digest.hexdigest()


def make_contract(opened: OpenRun, guard: LaunchGuard) -> ContractMade:
    """Return what the run sets out to do, as it is written down at its start."""
    settings, tasks = opened.app.loaded.settings, opened.plan.listing.tasks
    redact = opened.parts.services.redactor.text
    return ContractMade(
        base=guard.head,
        tasks=len(tasks),
        digest=digest_tasks(tasks),
        checks=tuple(redact(" ".join(argv)) for argv in settings.checks),
        require=opened.plan.policy.require,
        files=guard.digests(),
    )


def _places(opened: OpenRun, root: Path) -> list[Path]:
    """Return the places that settings open for agents, and the log that Segue writes for the user."""
    settings = opened.app.loaded.settings
    log = settings.log.file
    return [
        *expand_places(root, (*settings.sandbox.write, *settings.sandbox.read)),
        *([Path.cwd() / log] if log and log != "-" else []),
    ]


def _contract_files(opened: OpenRun, place: Path) -> Iterator[ContractFile]:
    """Yield the files of the contract that agents can reach where they work.

    In a work tree of the run's own these are copies: those that count are with the user, who may edit them.
    """
    home = Path(opened.spec.repo).resolve()
    source = opened.source
    subjects = dict.fromkeys(source.contract_files[:1], "tasks" if home == place else "copy")
    subjects |= dict.fromkeys((path for path in source.own_files if path not in subjects), "state")
    subjects |= dict.fromkeys((path for path in source.contract_files if path not in subjects), "criteria")
    for path, subject in subjects.items():
        if home == place:
            yield ContractFile(path, subject)
        elif path.resolve().is_relative_to(home):
            yield ContractFile(place / path.resolve().relative_to(home), subject)
    for path in _settings_files(opened, home):
        yield ContractFile(place / path, "settings")


def _settings_files(opened: OpenRun, home: Path) -> Iterator[Path]:
    """Yield where Segue would find settings, also where there are none yet, below the work tree.

    That is in every folder from the root to where the user is, and to the tasks.
    """
    starts = [opened.app.repo, *(path.parent for path in opened.source.contract_files)]
    inside = [one.resolve().relative_to(home) for one in starts if one.resolve().is_relative_to(home)]
    folders = dict.fromkeys(folder for start in (Path(), *inside) for folder in (start, *start.parents))
    for folder in folders:
        yield from (folder / name for name in PROJECT_FILES)
    named = opened.app.loaded.found.path
    if named is not None and named.resolve().is_relative_to(home):
        yield named.resolve().relative_to(home)
