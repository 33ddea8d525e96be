"""Whatever JSON goes into a database comes out the same, but for what Postgres refuses."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from segue.store import connect
from segue.store.encoding import decode, encode, escape
from tests.store.driving import SPEC

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
AWKWARD = st.text(st.characters() | st.sampled_from("\x00\\u0\ud800\udfff\ud83d\ude00"))


def values(text: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.recursive(
        st.none() | st.booleans() | st.integers() | text,
        lambda inner: st.lists(inner) | st.dictionaries(text, inner),
        max_leaves=20,
    )


@given(values(TEXT) | st.floats(allow_nan=False, allow_infinity=False))
def test_values_come_back(value: Any) -> None:
    assert decode(encode(value)) == value


@given(values(AWKWARD) | st.floats())
def test_what_a_database_refuses_is_replaced(value: Any) -> None:
    text = encode(value)
    assert text.encode()
    assert "\\u0000" not in text.replace("\\\\", "")
    assert encode(decode(text)) == text


def test_ordinary_text_stays_readable_for_people_who_query_by_hand() -> None:
    assert encode({"text": "Grüße \x1b[0m 日本"}) == '{"text":"Grüße \\u001b[0m 日本"}'


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=values(AWKWARD), text=AWKWARD)
def test_both_databases_take_it(database: str, value: Any, text: str) -> None:
    with connect(database) as store:
        run = store.create(text, SPEC)
        store.send(run.id, text, {"value": value})
        [row] = [row for batch in store.table("signals") for row in batch if row["run_id"] == run.id]
        assert row["topic"] == escape(text)
        assert row["payload"]["value"] == decode(encode(value))
