"""Queries that clients write are answered, and the rest is refused in words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from segue.parts.sim.github.app import github_app
from segue.parts.sim.github.script import GithubRepo, GithubScript

SCRIPT = GithubScript(repos={"acme/shop": GithubRepo(issues=[{"title": "First"}, {"title": "Second"}])})
CLIENT = TestClient(github_app(SCRIPT), "http://127.0.0.1", headers={"authorization": "Bearer x"})
LIST = """
fragment issue on Issue { number, ...more } fragment more on Issue { title }
query List($owner: String!, $states: [IssueState!] = OPEN, $n: Int = 1) { # a comment
    repository(owner: $owner, name: "shop") { hasIssues: hasIssuesEnabled @include(if: true)
        id @skip(if: true)
        issues(first: $n) { nodes { ...issue ... on PullRequest { id } } } } }"""


def ask(query: str, **variables: Any) -> Any:
    """Return what a query is answered."""
    return CLIENT.post("/graphql", json={"query": query, "variables": variables}).json()


def test_what_clients_send() -> None:
    repository = {"hasIssues": True, "issues": {"nodes": [{"number": 2, "title": "Second"}]}}
    assert ask(LIST, owner="acme") == {"data": {"repository": repository}}


@given(st.text(alphabet='{}()[]:$!@."\\# \nabfragmento0123-', max_size=60))
def test_anything_else_is_refused_in_words(text: str) -> None:
    answer = ask(text)
    assert "data" in answer or answer["errors"][0]["message"].startswith("Parse error: ")


@pytest.mark.parametrize(
    "text",
    ["", "{", "{ a(b: ) }", "subscription { a }", "{ a " * 2000, '{ a(b: "\n") }', "fragment a on B { c }"],
)
def test_refusals(text: str) -> None:
    assert ask(text)["errors"][0]["message"].startswith("Parse error: ")
