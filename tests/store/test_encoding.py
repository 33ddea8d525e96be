"""Whatever JSON and text go into a database come out the same."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from segue.domain.events import PromptSent
from segue.domain.results import StepFacts
from segue.domain.run import RunState
from segue.store import connect
from segue.store.encoding import decode, encode, escape, unescape
from tests.store.driving import SPEC, Given, driven, giving

TEXT = st.text(st.characters() | st.sampled_from("\x00\x10\\u0n\ud800\udfff\ud83d\ude00"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=20,
)


def same(one: Any, other: Any) -> bool:
    """Equal in type and sign too: 1 is not 1.0 and -0.0 is not 0.0."""
    return repr(one) == repr(other) if isinstance(one, float | int) else bool(one == other)


@given(TEXT)
def test_text_comes_back(text: str) -> None:
    escaped = escape(text)
    assert unescape(escaped) == text
    escaped.encode()
    assert "\x00" not in escaped


@given(JSON)
def test_values_come_back(value: Any) -> None:
    text = encode(value)
    assert same(decode(text), value)
    text.encode()
    assert "\\u0000" not in text.replace("\\\\", "")


def test_ordinary_text_stays_readable_for_people_who_query_by_hand() -> None:
    assert encode({"text": "Grüße \x1b[0m 日本"}) == '{"text":"Grüße \\u001b[0m 日本"}'


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=JSON, text=TEXT)
def test_values_come_back_from_the_database(database: str, value: Any, text: str) -> None:
    with connect(database) as store:
        run = store.create(text, SPEC)
        store.send(run.id, text, {"value": value})
        [row] = [row for batch in store.table("signals") for row in batch if row["run_id"] == run.id]
        assert row["topic"] == text
        assert same(row["payload"]["value"], value)
        assert store.runs(text)[0].id == run.id


AWKWARD = "a\x00b\x10c\udcff\ud83d \U0001f600"


def test_awkward_text_comes_back_wherever_it_is_stored(database: str) -> None:
    """In the specification, the note, keys and facts of steps, events, prompts and signals."""
    spec = replace(SPEC, source=AWKWARD, titles={AWKWARD: AWKWARD}, settings={AWKWARD: [AWKWARD]})
    facts = StepFacts(AWKWARD, AWKWARD, agent=AWKWARD, build_phase=AWKWARD, input=Given(d={AWKWARD: AWKWARD}))

    async def main() -> None:
        with connect(database) as store:
            async with driven(store, store.create(AWKWARD, spec).id) as journal:
                run_id = journal.run.id
                await journal.emit(PromptSent(AWKWARD, 1, AWKWARD), AWKWARD)
                await journal.step(AWKWARD, Given, giving(d={AWKWARD: AWKWARD}), facts=facts)
                await journal.set_state(RunState.FAILED, AWKWARD)
                store.send(run_id, AWKWARD, {AWKWARD: AWKWARD}, AWKWARD)
                assert await journal.wait(AWKWARD, 5) == {AWKWARD: AWKWARD}
        with connect(database) as store:
            run, [step], [prompt, *_] = store.run(run_id), store.steps(run_id), store.events(run_id)
            assert run is not None
            assert (run.spec, run.note, run.source_key) == (spec, AWKWARD, AWKWARD)
            assert (step.key, step.task, step.agent, step.build_phase) == (AWKWARD,) * 4
            assert (step.input, step.output) == ({"d": {AWKWARD: AWKWARD}},) * 2
            assert (prompt.step, prompt.event, store.prompt(AWKWARD)) == (
                AWKWARD,
                PromptSent(AWKWARD, 1),
                AWKWARD,
            )
            [found] = store.query("SELECT key, input FROM orchestrator_steps WHERE task = ?", [AWKWARD])
            assert found == {"key": AWKWARD, "input": {"d": {AWKWARD: AWKWARD}}}

    asyncio.run(main())
