"""The checks of `segue doctor`: what works here, what does not, and what mends it."""

from __future__ import annotations

import platform
import shutil
import sqlite3
import sys
from dataclasses import dataclass

from segue.app import App, agent_report
from segue.domain.errors import SegueError
from segue.system.git import Repository


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    what: str
    ok: bool
    detail: str
    fix: str = ""
    needed: bool = True
    exit_code: int = 1


async def examine(app: App) -> list[Finding]:
    """Look at everything a run needs."""
    return [_python(), _git(), await _repository(app), _database(app), *_agents(app)]


def _python() -> Finding:
    return Finding(
        "Python", sys.version_info >= (3, 11), platform.python_version(), "Segue needs Python 3.11+"
    )


def _git() -> Finding:
    found = shutil.which("git")
    fix = "install git: https://git-scm.com/downloads"
    return Finding("git", bool(found), found or "not found on PATH", fix, exit_code=5)


async def _repository(app: App) -> Finding:
    try:
        repo = await Repository.open(app.repo)
        now = await repo.snapshot()
    except SegueError as error:
        return Finding("repository", False, error.message, error.hint, needed=False)
    branch = now.branch or "detached"
    if now.dirty:
        fix = "commit or stash before a run, or use --allow-dirty"
        return Finding("repository", False, f"{repo.root} ({branch}, uncommitted changes)", fix, needed=False)
    return Finding("repository", True, f"{repo.root} ({branch}, clean)")


def _database(app: App) -> Finding:
    where = app.redactor().text(app.database())
    try:
        with app.store() as store:
            version = store.version()
    except SegueError as error:
        return Finding("database", False, error.message, error.hint)
    engine = "Postgres" if "://" in where else f"SQLite {sqlite3.sqlite_version}"
    return Finding("database", True, f"{where} ({engine}, version {version})")


def _agents(app: App) -> list[Finding]:
    chosen = app.loaded.settings.agent
    return [
        Finding(
            f"agent {report['name']}",
            report["ready"],
            "; ".join(report["problems"]) or f"can {', '.join(report['can'])}",
            report["fix"],
            needed=report["name"] == chosen,
            exit_code=report["exit_code"],
        )
        for report in agent_report(app)
    ]
