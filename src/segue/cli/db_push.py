"""The work of `segue db push`: which runs go where, and what is said about each."""

from __future__ import annotations

from collections.abc import Sequence

from segue.app import App
from segue.cli.output import Output, error_text
from segue.domain.errors import SegueError, UsageError
from segue.store.address import is_postgres, masked
from segue.store.database import Database, open_database
from segue.store.migrate import migrate
from segue.store.push import Pushed, push_run
from segue.store.store import SqlStore


def push_all(app: App, to: str | None, run_ids: Sequence[str], output: Output) -> int:
    """Push the runs, say what was pushed, and end with the code of the first failure."""
    source, target = _addresses(app, to)
    pushed: list[Pushed] = []
    failures: list[tuple[str, SegueError]] = []
    here, there = _opened(source), _opened(target)
    try:
        for run_id in _chosen(source, run_ids):
            try:
                pushed.append(push_run(here, there, run_id))
            except SegueError as error:
                failures.append((run_id, error))
    finally:
        here.close()
        there.close()
    _tell(pushed, failures, target, output)
    return failures[0][1].exit_code if failures else 0


def _addresses(app: App, to: str | None) -> tuple[str, str]:
    """From the SQLite file to the Postgres database, of which only one may be configured."""
    configured = app.database()
    local = str(app.state_dir / "segue.db") if is_postgres(configured) else configured
    target = to or configured
    if not is_postgres(target):
        raise UsageError(
            "No Postgres database was named.", hint="segue db push --to postgresql://user:password@host/name"
        )
    return local, target


def _opened(address: str) -> Database:
    database = open_database(address)
    try:
        migrate(database)
    except BaseException:
        database.close()
        raise
    return database


def _chosen(source: str, run_ids: Sequence[str]) -> list[str]:
    """The runs by id or a unique beginning of it; all of them, oldest first, when none is named."""
    with SqlStore(source, read_only=True) as store:
        if not run_ids:
            return [run.id for run in reversed(store.runs())]
        found = [(name, store.run(name)) for name in run_ids]
    unknown = [name for name, run in found if run is None]
    if unknown:
        raise UsageError(
            f"There is no run {unknown[0]} in {source}.",
            hint=f"List the runs: segue status --database-url {source}",
        )
    return [run.id for _, run in found if run]


def _tell(
    pushed: Sequence[Pushed], failures: Sequence[tuple[str, SegueError]], target: str, output: Output
) -> None:
    news = [one for one in pushed if one.is_news]
    if output.json:
        output.data(
            {
                "to": masked(target),
                "pushed": [
                    {"run": one.run, "events": one.events, "steps": one.steps, "prompts": one.prompts}
                    for one in news
                ],
                "unchanged": [one.run for one in pushed if not one.is_news],
                "failed": [{"run": run_id, "message": error.message} for run_id, error in failures],
            }
        )
    elif news:
        rows = [(one.run, one.events, one.steps, one.prompts) for one in news]
        output.table(["run", "events", "steps", "prompts"], rows)
    for _, error in failures:
        output.warn(error_text(error))
    output.note(f"{len(news)} of {len(pushed) + len(failures)} runs had something new for {masked(target)}.")
