"""Forecasts the time and cost of a run from the totals of earlier ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from segue.domain.run import RunKind
from segue.reports.selection import Dataset, Selection, name_setting
from segue.reports.statistics import FEWEST_TOTALS, Prediction, predict
from segue.reports.usage import read_usage, read_work

if TYPE_CHECKING:
    from segue.store.store import Store


CONFIDENCE = 0.8
"""With few runs a 95 % interval of the next one is too wide to be of use."""

_ENDED = ("done", "failed", "needs_human")
_ALIKE = 2
"""Runs have about as many tasks if neither has more than so many times those of the other."""


class Upcoming(Struct, frozen=True):
    """The run that is forecast."""

    kind: RunKind
    key: str
    """Names its source and repository."""
    source: str
    setting: str
    """Agent and model; empty: any."""
    tasks: int | None
    """How many tasks it has; None: an agent will plan them."""


class Outlook(Struct, frozen=True):
    """What earlier runs say about the next one."""

    basis: str
    """Which runs."""
    runs: int
    seconds: Prediction | None
    cost_usd: Prediction | None
    open: int
    """Comparable runs that have not ended: their totals are unknown, and may be larger."""

    def to_json(self) -> dict[str, Any]:
        """Return what programs read."""
        return {
            "basis": self.basis,
            "runs": self.runs,
            "needed": FEWEST_TOTALS,
            "open": self.open,
            "confidence": CONFIDENCE,
            "seconds": _to_json(self.seconds),
            "cost_usd": _to_json(self.cost_usd),
        }


class _Earlier(Struct, frozen=True):
    """One earlier run."""

    key: str
    source: str
    setting: str
    tasks: int
    ended: bool
    seconds: float
    cost_usd: float | None


def forecast(store: Store, upcoming: Upcoming) -> Outlook:
    """Forecast from the most similar runs of which there are enough."""
    history = list(_read_history(store, upcoming.kind))
    found: Outlook | None = None
    for basis, runs in _list_bases(history, upcoming):
        outlook = _predict(basis, runs)
        if outlook.seconds is not None:
            return outlook
        found = found or outlook
    assert found is not None
    return found


def _list_bases(history: Sequence[_Earlier], upcoming: Upcoming) -> Iterator[tuple[str, list[_Earlier]]]:
    """Yield comparable runs, the most similar ones first."""
    same = [run for run in history if run.key == upcoming.key or _is_same_prompt(run, upcoming)]
    if upcoming.setting:
        chosen = [run for run in same if run.setting == upcoming.setting]
        yield f"runs of this source with {upcoming.setting}", chosen
    yield "runs of this source", same
    alike = [
        run
        for run in history
        if run.setting == (upcoming.setting or run.setting)
        and (upcoming.tasks is None or run.tasks <= _ALIKE * upcoming.tasks <= _ALIKE**2 * run.tasks)
    ]
    who = f" with {upcoming.setting}" if upcoming.setting else ""
    size = "" if upcoming.tasks is None else " and about as many tasks"
    yield f"runs of kind {upcoming.kind}{who}{size}", alike


def _is_same_prompt(run: _Earlier, upcoming: Upcoming) -> bool:
    """Return whether both build the same thing, wherever; plans are the same only in their repository."""
    return upcoming.kind.is_planned and run.source == upcoming.source


def _predict(basis: str, runs: Sequence[_Earlier]) -> Outlook:
    ended = [run for run in runs if run.ended]
    costs = [run.cost_usd for run in ended if run.cost_usd]
    return Outlook(
        basis,
        len(ended),
        predict([run.seconds for run in ended], CONFIDENCE),
        predict(costs, CONFIDENCE) if len(costs) == len(ended) else None,
        len(runs) - len(ended),
    )


def _read_history(store: Store, kind: RunKind) -> Iterator[_Earlier]:
    dataset = Dataset(store, Selection(kind=kind))
    used, work = read_usage(dataset), read_work(dataset)
    tasks = Counter(row["run_id"] for row in dataset.ask("tasks"))
    keys = {
        row["id"]: str(row["source_key"])
        for row in store.query("SELECT id, source_key FROM orchestrator_runs WHERE kind = ?", [kind.value])
    }
    for run in dataset.ask("runs"):
        name = run["run_id"]
        yield _Earlier(
            key=keys[name],
            source=str(run["source"]),
            setting=name_setting(run),
            tasks=tasks[name],
            ended=run["state"] in _ENDED,
            seconds=work.get(name, 0) / 1000,
            cost_usd=used[name].usage.cost_usd,
        )


def _to_json(found: Prediction | None) -> dict[str, float] | None:
    if found is None:
        return None
    return {"middle": round(found.middle, 6), "low": round(found.low, 6), "high": round(found.high, 6)}
