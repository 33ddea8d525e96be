"""Push runs from one database to another: in batches, any number of times, without duplicates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from msgspec import Struct

from segue.domain.errors import Locked, StoreError, UsageError
from segue.domain.events import PromptSent
from segue.store import rows
from segue.store.claim import claim, is_gone, new_owner, release, renew
from segue.store.database import Database, Row, ask, escape_values, transact
from segue.store.encoding import decode

BATCH_ROWS = 1000
BATCH_BYTES = 4 * 1024**2
_RUN = ("id", "source_key", "kind", "spec", "state", "note", "wake", "created", "updated")
_KEYS = {"runs": "id", "steps": "run_id, key, gen", "events": "run_id, seq"}
_KEYS |= {"signals": "run_id, id", "prompts": "digest"}


class Pushed(Struct, frozen=True):
    """What a push added to the other database for one run."""

    run: str
    events: int = 0
    steps: int = 0
    prompts: int = 0
    is_news: bool = True


def push_run(source: Database, target: Database, run_id: str) -> Pushed:
    """Push one run from where the last push stopped; raises Locked while the run is driven."""
    here, there = _state_of(source, run_id), _state_of(target, run_id)
    if here is None:
        raise UsageError(f"There is no run {run_id} to push.", hint="`segue status` lists the runs.")
    _refuse_driven(source, run_id)
    stored = _stored(source, target, run_id)
    if here == there:
        return Pushed(run_id, is_news=False)
    owner = new_owner() if there else None
    if owner:
        transact(target, lambda _again: claim(target, run_id, owner))
    try:
        push = _Push(source, target, run_id, owner)
        events, prompts = push.push_events(stored)
        # Steps and the run come last and together: nobody sees a run with parts missing.
        return Pushed(run_id, events, transact(target, lambda _again: push.push_state()), prompts)
    finally:
        if owner:
            transact(target, lambda _again: release(target, run_id, owner))


class _Push(Struct, frozen=True):
    """The push of one run."""

    source: Database
    target: Database
    run_id: str
    owner: str | None
    """Our claim in the target; None while there is nothing to claim."""

    def push_events(self, stored: int) -> tuple[int, int]:
        """Push events in batches, each with its prompts in one transaction: a killed push can continue."""
        events = prompts = 0
        sql = _select("events", rows.EVENT, "run_id = ? AND seq > ? ORDER BY seq")
        for batch in batches(self.source, sql, self.run_id, stored):
            more = transact(self.target, partial(self._push_batch, batch))
            events, prompts = events + more[0], prompts + more[1]
        return events, prompts

    def _push_batch(self, batch: Sequence[Row], _again: bool) -> tuple[int, int]:
        self._renew_claim()
        digests = sorted({decode(row[5])["digest"] for row in batch if row[4] == PromptSent.type})
        prompts = 0
        columns = rows.TABLES["prompts"].split()
        for digest in digests:
            for texts in batches(self.source, _select("prompts", columns, "digest = ?"), digest):
                prompts += merge(self.target, "prompts", columns, texts)
        return merge(self.target, "events", rows.EVENT, batch), prompts

    def push_state(self) -> int:
        """Push steps, signals and the run itself."""
        self._renew_claim()
        count = 0
        for table in ("steps", "signals"):
            columns = rows.TABLES[table].split()
            for batch in batches(self.source, _select(table, columns, "run_id = ?"), self.run_id):
                merge(self.target, table, columns, batch, update=True)
                count += len(batch) if table == "steps" else 0
        for batch in batches(self.source, _select("runs", _RUN, "id = ?"), self.run_id):
            merge(self.target, "runs", _RUN, batch, update=True)
        self.target.announce()
        return count

    def _renew_claim(self) -> None:
        if self.owner and renew(self.target, [(self.run_id, self.owner)]):
            raise Locked(f"Run {self.run_id} was taken over by another process during the push.")


def batches(source: Database, sql: str, *values: object) -> Iterator[list[Row]]:
    """Yield the rows of a query in batches that fit into memory, escaped for `append`."""
    batch: list[Row] = []
    size = 0
    for found in source.stream(sql, 1, *values):
        batch += [escape_values(row) for row in found]
        size += sum(len(value) for value in batch[-1] if isinstance(value, str))
        if len(batch) >= BATCH_ROWS or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def merge(
    target: Database, table: str, columns: Sequence[str], batch: Sequence[Row], update: bool = False
) -> int:
    """Add the missing rows in the order of their keys; `update` also changes existing ones."""
    names, key, passing = ", ".join(columns), _KEYS[table], f"segue_push_{table}"
    changes = ", ".join(f"{name} = excluded.{name}" for name in columns if name not in key.split(", "))
    action = f"UPDATE SET {changes}" if update else "NOTHING"
    target.execute(f"CREATE TEMP TABLE {passing} AS SELECT {names} FROM orchestrator_{table} LIMIT 0")  # noqa: S608
    target.append(passing, columns, batch)
    count = target.change(
        f"INSERT INTO orchestrator_{table} ({names}) SELECT {names} FROM {passing} WHERE true ORDER BY {key}"  # noqa: S608
        f" ON CONFLICT ({key}) DO {action}"
    )
    target.execute(f"DROP TABLE {passing}")
    return count


def _select(table: str, columns: Sequence[str], where: str) -> str:
    return f"SELECT {', '.join(columns)} FROM orchestrator_{table} WHERE {where}"  # noqa: S608


def _state_of(database: Database, run_id: str) -> list[Row] | None:
    """Return when the run was created and changed, and its last event; None if there is no such run."""
    run = ask(database, "SELECT created, updated FROM orchestrator_runs WHERE id = ?", run_id)
    return [*run, *_last(database, run_id)] if run else None


def _last(database: Database, run_id: str) -> list[Row]:
    sql = "SELECT seq, ts, type FROM orchestrator_events WHERE run_id = ? ORDER BY seq DESC LIMIT 1"
    return ask(database, sql, run_id)


def _stored(source: Database, target: Database, run_id: str) -> int:
    """Return the number of the last event in the target; raises if the histories differ."""
    for seq, *event in _last(target, run_id):
        sql = "SELECT ts, type FROM orchestrator_events WHERE run_id = ? AND seq = ?"
        if ask(source, sql, run_id, seq) != [tuple(event)]:
            raise StoreError(
                f"Run {run_id} continued there after it was pushed, or is another run with the same name.",
                kept="Nothing was overwritten.",
                hint=f"Continue it there: segue resume {run_id} --database-url URL",
            )
        return int(seq)
    return 0


def _refuse_driven(source: Database, run_id: str) -> None:
    sql = "SELECT owner, lease, {now} FROM orchestrator_runs WHERE id = ?"
    for owner, lease, now in ask(source, sql, run_id):
        if owner and not is_gone(owner, lease, now):
            raise Locked(
                f"Run {run_id} is being driven here; a copy could be driven elsewhere at the same time.",
                hint=f"Push it after it has ended, or stop it with `segue stop {run_id}`.",
            )
