"""A query that nobody worded, made from what failed."""

from __future__ import annotations

import pytest

from segue.domain.task import Task
from segue.domain.verdict import Action, CriterionVerdict, Result, Verdict
from segue.flow.query import make_query

CASES = [
    (
        "Add accounts",
        "supabase.auth.signUp raises AuthApiError: email rate limit exceeded.",
        ["AuthApiError", "rate", "limit"],
    ),
    (
        "Realtime list",
        "The list does not update: realtime is not enabled for the table.",
        ["realtime", "enabled", "table"],
    ),
    (
        "Row level security",
        "Policy `todos_select` uses `auth.uid()` wrongly; others' rows are visible.",
        ["auth.uid"],
    ),
    (
        "Deploy",
        "Build failed. /home/me/app/src/x.ts:12: error TS2339: Property 'user' does not exist",
        ["TS2339", "Property"],
    ),
    (
        "Store files",
        "storage.from is undefined at line 40 of /srv/app/upload.js",
        ["storage.from", "undefined"],
    ),
    ("Edge function", "Deno cannot import npm:stripe in the edge function.", ["Deno", "import", "stripe"]),
    ("Migrations", 'relation "profiles" does not exist (42P01)', ["profiles", "relation"]),
    ("Sign in", "permission denied for schema auth", ["permission", "denied", "schema"]),
]
"""Written before the rule, by its author; it had the words of all eight at first."""


@pytest.mark.parametrize(("title", "reason", "wanted"), CASES)
def test_a_query_names_what_failed(title: str, reason: str, wanted: list[str]) -> None:
    query = make_query(Task("1", title, ""), Verdict(Result.FAIL, Action.RETRY, reason))
    assert [word for word in wanted if word not in query] == []
    assert query != reason
    assert len(query.split()) <= 14
    assert "/home" not in query


def test_what_a_judge_found_unmet_is_part_of_it() -> None:
    unmet = CriterionVerdict("Users see only their own todos", False, "the policy lacks `WITH CHECK`")
    found = make_query(Task("1", "Todos", ""), Verdict(Result.FAIL, Action.RETRY, "", (unmet,)))
    assert found == "Users own todos policy lacks"


def test_without_any_words_it_is_the_title() -> None:
    assert make_query(Task("1", "the", ""), Verdict(Result.FAIL, Action.RETRY, "")) == "the"
