"""The parser of GraphQL documents reads what clients write, and refuses the rest in words."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.sim.github.query import BadQuery, FieldNode, Spread, Variable, fill_value, parse_query

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True).filter(
    lambda name: name not in ("on", "true", "false", "null", "fragment")
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**31), 2**31) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=5,
)


def write(value: Any) -> str:
    """Write a value as GraphQL does."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {write(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + " ".join(write(item) for item in value) + "]"
    return json.dumps(value)


@given(st.dictionaries(NAMES, VALUES, min_size=1, max_size=4))
def test_values_survive(arguments: dict[str, Any]) -> None:
    given_ = ", ".join(f"{name}: {write(value)}" for name, value in arguments.items())
    [field] = parse_query(f"{{ a: b({given_}) {{ c }} }}").operations[0].selections
    assert isinstance(field, FieldNode)
    assert (field.alias, field.name, field.arguments) == ("a", "b", arguments)


@given(st.text(alphabet='{}()[]:$!@."\\# \nabfragmento0123-', max_size=60))
def test_anything_else_is_refused_in_words(text: str) -> None:
    with suppress(BadQuery):
        parse_query(text)


def test_what_clients_send() -> None:
    document = parse_query(
        """fragment issue on Issue { number, ...more }
        query List($owner: String!, $states: [IssueState!] = OPEN, $n: Int = 3) { # a comment
            repository(owner: $owner) { hasIssues: hasIssuesEnabled @include(if: true)
                issues(first: $n) { nodes { ...issue ... on Node { id } } } } }"""
    )
    operation = document.pick(None)
    assert (operation.name, operation.defaults) == ("List", {"states": "OPEN", "n": 3})
    [repository] = operation.selections
    assert isinstance(repository, FieldNode)
    assert repository.arguments == {"owner": Variable("owner")}
    assert fill_value(repository.arguments, {"owner": "acme"}) == {"owner": "acme"}
    assert isinstance(document.fragments["issue"].selections[1], Spread)


@pytest.mark.parametrize(
    "text", ["", "{", "{ a(b: ) }", "subscription { a }", "{ a " * 100, '{ a(b: "\n") }']
)
def test_refusals(text: str) -> None:
    with pytest.raises(BadQuery):
        parse_query(text).pick(None)
