"""Check that a store keeps its promises."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from segue.domain.errors import StoreError
from segue.domain.events import AgentTool, Recorded
from segue.domain.results import Output, StepFacts, StepResult, to_json
from segue.domain.run import RunSpec, StepState
from segue.store.journal import Work
from segue.store.store import Store
from tests.conformance.trial import report_broken

MakeStore = Callable[[], Store]
_SPEC = RunSpec(
    "planfile", "plan.md", "/repo", "scripted", "quick", tasks=("1", "2"), settings={"a": {"b": 1}}
)


class Noted(Output, frozen=True):
    """What the steps of this check store."""

    text: str = ""
    n: tuple[Any, ...] = ()
    d: dict[str, Any] = {}


_AWKWARD = Noted("a\x00b\x10c \ud83d\ude00 \U0001f600 \udcff", (1, 2.5, None, True), {"": -1})
_NOTHING = Noted()


def check_store(make: MakeStore) -> None:
    """Raise AssertionError with every promise that is broken.

    `make` connects to the same data each time; it is called several times, as several processes would.
    """
    report_broken("store", _PROMISES, lambda promise: promise(make))


def _returns(value: Noted, calls: list[str], ok: bool = True) -> Work[Noted]:
    async def work(token: str) -> StepResult[Noted]:
        calls.append(token)
        return StepResult(ok, value)

    return work


def _beginning(run_id: str, store: Store) -> str:
    """Return the shortest beginning of an id that no other run has."""
    others = [run.id for run in store.runs() if run.id != run_id]
    lengths = range(1, len(run_id) + 1)
    return next(run_id[:n] for n in lengths if not any(other.startswith(run_id[:n]) for other in others))


async def _finds_runs(make: MakeStore) -> None:
    """Runs are found by id, by the beginning of an id and by source, newest first."""
    with make() as store:
        runs = [store.create("finds", _SPEC) for _ in range(3)]
        assert store.run(runs[0].id) == runs[0], "by id"
        assert store.run(_beginning(runs[0].id, store)) == runs[0], "by the beginning of an id"
        assert store.runs("finds") == runs[::-1], "newest first"
        assert store.runs("finds", limit=1) == runs[-1:], "limited"
        assert store.run("no such run") is None, "None for an unknown run"
        assert runs[0].spec == _SPEC, "the specification comes back as it was given"


async def _discards(make: MakeStore) -> None:
    """A run that could not start is removed; one that has begun stays."""
    with make() as store:
        unused, begun = (store.create("discards", _SPEC) for _ in range(2))
        journal = await store.open(begun.id)
        await journal.step("a", Noted, _returns(_NOTHING, []))
        await store.close(journal)
        for run in (unused, begun):
            store.discard(run.id)
        assert [run.id for run in store.runs("discards")] == [begun.id], "only what has begun is left"


async def _does_once(make: MakeStore) -> None:
    """A step that has a result is not done again, not by another process either."""
    calls: list[str] = []
    with make() as store:
        run = store.create("once", _SPEC)
        journal = await store.open(run.id)
        first = await journal.step("a", Noted, _returns(Noted("1"), calls), facts=StepFacts("1", "execute"))
        failed = await journal.step("b", Noted, _returns(_NOTHING, calls, ok=False))
        await store.close(journal)
    with make() as store:
        journal = await store.open(run.id)
        again = await journal.step("a", Noted, _returns(Noted("2"), calls))
        assert again == first == journal.recorded("a", Noted), "the first result is returned"
        assert await journal.step("b", Noted, _returns(_NOTHING, calls)) == failed, "failure is a result too"
        assert [step.state for step in journal.steps()] == [StepState.DONE, StepState.FAILED], "in order"
        await store.close(journal)
    assert len(calls) == 2, f"the work was done {len(calls)} times instead of twice"


async def _reconciles(make: MakeStore) -> None:
    """A step that was interrupted keeps its token and is looked up before it is repeated."""
    tokens: list[str] = []

    async def breaks(token: str) -> StepResult[Noted]:
        tokens.append(token)
        raise RuntimeError("interrupted")

    async def found(token: str) -> StepResult[Noted] | None:
        tokens.append(token)
        return StepResult(True, Noted("found"))

    with make() as store:
        run = store.create("reconciles", _SPEC)
        journal = await store.open(run.id)
        with pytest.raises(RuntimeError):
            await journal.step("a", Noted, breaks, found)
        assert journal.state("a") is StepState.STARTED, "its outcome is unknown"
        result = await journal.step("a", Noted, breaks, found)
        await store.close(journal)
    assert result.output == Noted("found"), "what was found is the result"
    assert len(tokens) == 2, "looked up once, only after the interruption"
    assert tokens[0] == tokens[1], "the token is the same"


async def _keeps_events(make: MakeStore) -> None:
    """Events are numbered from 1 without gaps, come back unchanged, and observers see each one."""
    seen: list[Recorded] = []

    def observe(event: Recorded) -> None:
        seen.append(event)

    with make() as store:
        run = store.create("events", _SPEC)
        journal = await store.open(run.id, [observe])
        for number in range(100):
            await journal.emit(AgentTool(_AWKWARD.text, {"number": number, **to_json(_AWKWARD)}), "a")
        await journal.step("a", Noted, _returns(_AWKWARD, []))
        stored = list(store.events(run.id))
        await store.close(journal)
        assert [event.data for event in stored] == [_as_stored(e.data) for e in seen], (
            "what is stored is what was seen"
        )
        assert [event.seq for event in stored] == list(range(1, len(stored) + 1)), "without gaps"
        assert [event.seq for event in store.events(run.id, after=5, limit=2)] == [6, 7], "in pages"
        assert store.steps(run.id)[0].output == _as_stored(to_json(_AWKWARD)), "outputs come back unchanged"
        kinds = store.events(run.id, kinds=[AgentTool])
        assert sum(1 for _ in kinds) == 100, "of one kind only"


async def _hears_signals(make: MakeStore) -> None:
    """A signal is heard once, in order, from another process too, also when it was sent before."""
    with make() as store, make() as other:
        run = store.create("signals", _SPEC)
        assert other.send(run.id, "news", {"n": 1}, "one"), "a new signal"
        assert not other.send(run.id, "news", {"n": 2}, "one"), "the same signal again"
        journal = await store.open(run.id)
        assert await journal.topics() == {"news"}, "it waits to be taken"
        assert await journal.wait("news", 120) == {"n": 1}, "sent before"
        assert not await journal.topics(), "it was taken"
        waiting = asyncio.create_task(journal.wait("news", 120))
        await asyncio.sleep(0)
        other.send(run.id, "news", {"n": 3})
        assert await waiting == {"n": 3}, "sent while waiting"
        assert await journal.wait("news", 0.01) is None, "None after the timeout"
        await store.close(journal)


async def _counts_slots(make: MakeStore) -> None:
    """As many slots of a backend are held at once as its limit allows, and no more."""
    held, most = 0, 0
    two_held = asyncio.Event()

    async def hold(store: Store) -> None:
        nonlocal held, most
        journal = await store.open(store.create("slots", _SPEC).id)
        async with journal.slot("paid", 2):
            held += 1
            most = max(most, held)
            if held == 2:
                two_held.set()
            async with asyncio.timeout(60):
                await two_held.wait()
            await asyncio.sleep(0.01)
            held -= 1
        await store.close(journal)

    with make() as one, make() as two:
        await asyncio.gather(*(hold(store) for store in (one, two) * 3))
    assert most == 2, f"{most} were held at once"


async def _answers_questions(make: MakeStore) -> None:
    """Questions are asked in one SQL, with `?` for arguments; they cannot change anything."""
    with make() as store:
        run = store.create("asks", _SPEC)
        journal = await store.open(run.id)
        await journal.step("a", Noted, _returns(_AWKWARD, []), facts=StepFacts("1", "execute"))
        await store.close(journal)
        sql = (
            "SELECT output, output->>'text' AS text, attempt * 2.5 AS product, count(*) OVER () AS times,"
            " '100 % of what?' AS words FROM orchestrator_steps WHERE run_id = ? AND task = ? -- why?\n"
        )
        text = {"text": _AWKWARD.text, "output": _as_stored(to_json(_AWKWARD))}
        expected = {**text, "product": 2.5, "times": 1, "words": "100 % of what?"}
        assert store.query(sql, [run.id, "1"]) == [expected], "names, JSON and numbers"
        assert store.query(sql, [run.id, "2"]) == [], "nothing found"
        for change in ("DELETE FROM orchestrator_steps", "SELECT 1; DELETE FROM orchestrator_steps"):
            with pytest.raises(StoreError):
                store.query(change)
        assert store.query(sql, [run.id, "1"]), "nothing was changed"


def _as_stored(value: Any) -> Any:
    """Return a value as JSON has it: tuples are lists."""
    if isinstance(value, dict):
        return {key: _as_stored(item) for key, item in value.items()}
    return [_as_stored(item) for item in value] if isinstance(value, list | tuple) else value


_PROMISES = (
    _finds_runs,
    _discards,
    _does_once,
    _reconciles,
    _keeps_events,
    _hears_signals,
    _counts_slots,
    _answers_questions,
)
