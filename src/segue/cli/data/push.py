"""`segue db push`: write buffered events, then the runs of the SQLite file, to Postgres."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct, field

from segue.cli.terminal.output import Printer, error_text
from segue.domain.errors import SegueError, UsageError
from segue.runtime.app import App
from segue.store.address import is_postgres, masked, sqlite_path
from segue.store.database import Database, open_database
from segue.store.push import Pushed, push_run
from segue.store.schema import create
from segue.store.spool import spools_in
from segue.store.store import Store

_COUNTED = ("run", "events", "steps", "prompts")


class PushReport(Struct):
    """The result for each run."""

    replayed: list[str] = field(default_factory=list)
    pushed: list[Pushed] = field(default_factory=list)
    failed: list[tuple[str, SegueError]] = field(default_factory=list)

    def attempt(self, run_id: str, work: Callable[[str], None]) -> None:
        """Push one run; a failure does not stop the others."""
        try:
            work(run_id)
        except SegueError as error:
            self.failed.append((run_id, error))


def push_runs(app: App, to: str | None, names: Sequence[str], output: Printer) -> int:
    """Push the runs, print what was pushed, and return the exit code of the first failure."""
    local, target = _addresses(app, to)
    report = PushReport()
    with _open_made(target) as there:
        _replay(app, target, names, report)
        known = [name for name in names if any(run.startswith(name) for run in report.replayed)]
        if sqlite_path(local).exists():
            with _open_made(local) as here:
                for run_id in _run_ids(local, names, known):
                    report.attempt(run_id, lambda run: report.pushed.append(push_run(here, there, run)))
        elif len(known) < len(names):
            raise _unknown_run(next(name for name in names if name not in known), local)
    _print_report(report, target, output)
    return report.failed[0][1].exit_code if report.failed else 0


def _addresses(app: App, to: str | None) -> tuple[str, str]:
    """Return the SQLite file and the Postgres database; only one of them may be configured."""
    configured = app.database()
    local = str(app.state_dir / "segue.db") if is_postgres(configured) else configured
    target = to or configured
    if not is_postgres(target):
        raise UsageError(
            "The database to push to is not Postgres." if to else "No Postgres database is configured.",
            hint="Name one: segue db push --to postgresql://user:password@host/name",
        )
    return local, target


@contextmanager
def _open_made(address: str) -> Iterator[Database]:
    database = open_database(address)
    try:
        create(database)
        yield database
    finally:
        database.close()


def _replay(app: App, target: str, names: Sequence[str], report: PushReport) -> None:
    """Write the events that were buffered while this database was unreachable."""
    folder = app.state_dir / "runs"
    waiting = [run for run in spools_in(folder) if not names or any(run.startswith(name) for name in names)]
    if not waiting:
        return
    with Store(target, spools=folder, patience=1.0) as store:

        def replay(run_id: str) -> None:
            if store.run(run_id) is not None:  # otherwise it belongs to another database
                store.replay(run_id)
                report.replayed.append(run_id)

        for run_id in waiting:
            report.attempt(run_id, replay)


def _run_ids(local: str, names: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return the runs with these ids or unique prefixes; without names, all runs, oldest first."""
    with Store(local, read_only=True) as store:
        if not names:
            return [run.id for run in reversed(store.runs())]
        found = [(name, store.run(name)) for name in names]
    for name, run in found:
        if run is None and name not in known:
            raise _unknown_run(name, local)
    return [run.id for _, run in found if run]


def _unknown_run(name: str, local: str | Path) -> UsageError:
    hint = f"List the runs: segue status --database-url {local}"
    return UsageError(f"There is no run {name} in {local}.", hint=hint)


def _print_report(report: PushReport, target: str, output: Printer) -> None:
    news = [one for one in report.pushed if one.is_news]
    if output.json:
        output.data(
            {
                "to": masked(target),
                "replayed": report.replayed,
                "pushed": [{name: getattr(one, name) for name in _COUNTED} for one in news],
                "unchanged": [one.run for one in report.pushed if not one.is_news],
                "failed": [{"run": run_id, "message": error.message} for run_id, error in report.failed],
            }
        )
    elif news:
        output.table(_COUNTED, [[getattr(one, name) for name in _COUNTED] for one in news])
    for run_id in report.replayed:
        output.text(f"Run {run_id}: the buffered events are in the database.")
    for _, error in report.failed:
        output.warn(error_text(error))
    output.note(f"{len(news)} of {len(report.pushed)} runs had something new for {masked(target)}.")
