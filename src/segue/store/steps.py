"""The rows of steps: what is written of each, and the current ones in memory."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from segue.domain.run import Step
from segue.store.database import Database, Executes, ask
from segue.store.encoding import encode
from segue.store.rows import STEP, now, to_step


class StepIndex:
    """The current steps of a run by key and by every beginning of a key that ends in `/`."""

    def __init__(self, steps: Iterable[Step] = ()) -> None:
        self._steps: dict[str, Step] = {}
        self._folders: dict[str, dict[str, None]] = {}
        for step in steps:
            self.put(step)

    def get(self, key: str) -> Step | None:
        """Return the step with this key."""
        return self._steps.get(key)

    def put(self, step: Step) -> None:
        """Add a step, or replace it in its place."""
        if step.key not in self._steps:
            for folder in _folders(step.key):
                self._folders.setdefault(folder, {})[step.key] = None
        self._steps[step.key] = step

    def drop(self, key: str) -> None:
        """Forget a step."""
        del self._steps[key]
        for folder in _folders(key):
            del self._folders[folder][key]

    def under(self, prefix: str) -> list[Step]:
        """Return the steps whose key starts with the prefix, in order of their start."""
        keys = self._folders.get(prefix[: prefix.rfind("/") + 1], {})
        return [self._steps[key] for key in keys if key.startswith(prefix)]


def _folders(key: str) -> list[str]:
    return ["", *(key[: place + 1] for place, letter in enumerate(key) if letter == "/")]


class Loaded(Struct, frozen=True):
    """What a journal knows when it is opened."""

    steps: StepIndex
    old: dict[str, int]
    """The last generation of keys that were redone."""
    seq: int
    last: int = 0
    """When the last event was written, in milliseconds since the epoch."""


def load(database: Database, run_id: str) -> Loaded:
    """Read the current steps, the generations left behind and the number of the last event."""
    rows = ask(
        database,
        f"SELECT {STEP} FROM orchestrator_steps WHERE run_id = ? AND superseded IS NULL ORDER BY seq",  # noqa: S608
        run_id,
    )
    old = ask(
        database,
        "SELECT key, max(gen) FROM orchestrator_steps"
        " WHERE run_id = ? AND superseded IS NOT NULL GROUP BY key",
        run_id,
    )
    sql = "SELECT seq, ts FROM orchestrator_events WHERE run_id = ? ORDER BY seq DESC LIMIT 1"
    [(seq, ts)] = ask(database, sql, run_id) or [(0, 0)]
    return Loaded(StepIndex(map(to_step, rows)), dict(old), seq, ts if isinstance(ts, int) else 0)


def write_intent(database: Executes, step: Step, seq: int, owner: str) -> None:
    """Record that the step begins."""
    database.execute(
        f"INSERT INTO orchestrator_steps ({STEP}, seq, tries, owner)"  # noqa: S608
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?)"
        " ON CONFLICT (run_id, key, gen) DO NOTHING",
        step.run,
        step.key,
        step.gen,
        step.state.value,
        step.token,
        step.task,
        step.phase,
        step.attempt,
        encode(step.input),
        encode(step.output),
        step.started,
        step.ended,
        step.agent,
        step.model,
        step.build_phase,
        seq,
        owner,
    )


def write_adoption(database: Executes, step: Step, owner: str) -> None:
    """Record that an interrupted step is entered again."""
    database.execute(
        "UPDATE orchestrator_steps SET tries = tries + 1, owner = ? WHERE run_id = ? AND key = ? AND gen = ?",
        owner,
        step.run,
        step.key,
        step.gen,
    )


def write_outcome(database: Executes, step: Step, output: str) -> None:
    """Record how the step ended."""
    database.execute(
        "UPDATE orchestrator_steps SET state = ?, output = ?, ended = ?"
        " WHERE run_id = ? AND key = ? AND gen = ?",
        step.state.value,
        output,
        step.ended,
        step.run,
        step.key,
        step.gen,
    )


def write_redo(database: Executes, run_id: str, prefix: str) -> None:
    """Leave the current generation of the steps under a prefix behind."""
    database.execute(
        "UPDATE orchestrator_steps SET superseded = ?"
        " WHERE run_id = ? AND superseded IS NULL AND substr(key, 1, ?) = ?",
        now(),
        run_id,
        len(prefix),
        prefix,
    )
