"""Only keywords at the start of a line are commands."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.features.bridge.commands import (
    AgentCommand,
    LocalAction,
    Remind,
    Subagent,
    WebhookResult,
)
from segue.features.bridge.grammar import ParsedReply, parse_reply

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
KEYWORDS = ("SUBAGENT", "LOCAL_ACTION", "REMIND", "WEBHOOK_RESULT")


def reading(text: str, *, limit: int = 100) -> ParsedReply:
    return parse_reply(text, now=NOW, limit=limit)


def commands(text: str) -> list[AgentCommand]:
    return list(reading(text).commands)


def reason(line: str) -> str:
    found = reading(line)
    assert found.commands == ()
    [skipped] = found.skipped
    return skipped.reason


def test_the_examples_of_the_protocol() -> None:
    prompt = 'Add a health check endpoint at GET /health that returns 200 and {"status":"ok"}'
    text = (
        f"I will delegate.\n```\nSUBAGENT: repo=github.com/me/my-app, prompt={prompt}\n```\n"
        "LOCAL_ACTION: backup_script\r\n"
        "REMIND: in 30m, look at the build\n"
        "WEBHOOK_RESULT: agent_id=bc-1, status=done"
    )
    assert commands(text) == [
        Subagent("github.com/me/my-app", prompt),
        LocalAction("backup_script"),
        Remind(NOW + timedelta(minutes=30), "look at the build"),
        WebhookResult("bc-1", "done"),
    ]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("SUBAGENT:  REPO = a.b/c/d ,  Prompt =  x  ", Subagent("a.b/c/d", "x")),
        ("SUBAGENT: repo=a.b/c/d, prompt=set a=1, b=2, c", Subagent("a.b/c/d", "set a=1, b=2, c")),
        ("SUBAGENT: repo=a.b/c/d, prompt=x, repo=y", Subagent("a.b/c/d", "x, repo=y")),
        ("SUBAGENT: prompt=Fix it, all of it, repo=a.b/c/d", Subagent("a.b/c/d", "Fix it, all of it")),
        (
            "SUBAGENT: repo=a.b/c/d, agent=claude, model=opus-5, branch=feature/x, wait=No, prompt=x",
            Subagent("a.b/c/d", "x", "claude", "opus-5", "feature/x", wait=False),
        ),
        (
            "LOCAL_ACTION: open, url=http://x/?a=1,b, n=3",
            LocalAction("open", {"url": "http://x/?a=1,b", "n": "3"}),
        ),
    ],
)
def test_lines_are_read_as_written(line: str, wanted: AgentCommand) -> None:
    assert commands(line) == [wanted]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("SUBAGENT: repo=a.b/c/d", "prompt is missing"),
        ("SUBAGENT: repo=, prompt=x", "repo is missing"),
        ("SUBAGENT: do something", "not a key"),
        ("SUBAGENT: repo=a.b/c/d, repo=e, prompt=x", "twice"),
        ("SUBAGENT: repo=a.b/c/d, model=--evil, prompt=x", "model"),
        ("SUBAGENT: repo=a.b/c/d, branch=a..b, prompt=x", "branch"),
        ("SUBAGENT: repo=a.b/c/d, wait=maybe, prompt=x", "wait"),
        ("LOCAL_ACTION:", "action"),
        ("LOCAL_ACTION: ../../bin/sh", "action"),
        ("LOCAL_ACTION: rm -rf /", "action"),
        ("LOCAL_ACTION: open, url", "not a key"),
        ("LOCAL_ACTION: x, a=" + "y" * 200_000, "longer"),
        ("REMIND: in 30m,  ", "message is missing"),
        ("WEBHOOK_RESULT: agent_id=x", "needed"),
        ("WEBHOOK_RESULT: agent_id=x y, status=done", "agent_id"),
        ("**LOCAL_ACTION: backup**", "start of its line"),
        ("1. LOCAL_ACTION: backup", "start of its line"),
        ("  LOCAL_ACTION: backup", "start of its line"),
    ],
)
def test_malformed_lines_are_skipped_with_their_reason(line: str, says: str) -> None:
    assert says in reason(line)


@pytest.mark.parametrize(
    "line",
    ["LOCAL_ACTION x", "Use LOCAL_ACTION: x", "LOCAL_ACTIONS: x", "text\u2028LOCAL_ACTION: x", "UNKNOWN: x"],
)
def test_other_lines_are_prose(line: str) -> None:
    assert reading(line) == ParsedReply((), ())


def test_repeats_are_executed_once_and_too_many_are_limited() -> None:
    found = reading("LOCAL_ACTION: x\nLOCAL_ACTION:   x\nREMIND: in 1h, a\nREMIND: IN  1h, a\n")
    assert len(found.commands) == 2
    assert [skipped.line for skipped in found.skipped] == [2, 4]
    many = reading("\n".join(f"LOCAL_ACTION: a{n}" for n in range(1_000)), limit=20)
    assert (len(many.commands), len(many.skipped)) == (20, 980)
    assert "more than 20" in many.skipped[0].reason


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("2026-11-16T09:00:00Z", datetime(2026, 11, 16, 9, tzinfo=UTC)),
        ("2026-11-16 09:00+01:00", datetime(2026, 11, 16, 8, tzinfo=UTC)),
        ("in 1 hour and 30 minutes", NOW + timedelta(minutes=90)),
        ("1h30m", NOW + timedelta(minutes=90)),
        ("in 2 days", NOW + timedelta(days=2)),
    ],
)
def test_instants(said: str, wanted: datetime) -> None:
    [command] = commands(f"REMIND: {said}, x")
    assert isinstance(command, Remind)
    assert command.when == wanted


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ("30", "not a time"),
        ("soon", "not a time"),
        ("in -5m", "not a time"),
        ("2026-02-31T09:00:00Z", "not a time"),
        ("2026-11-16T09:00:00", "zone"),
        ("2020-01-01T00:00:00Z", "past"),
        ("0m", "past"),
        ("999999w", "year"),
    ],
)
def test_instants_that_are_refused(said: str, says: str) -> None:
    assert says in reason(f"REMIND: {said}, x")


noise = st.text(st.characters(codec="utf-8") | st.sampled_from("`~\n\r:=,{}\"' \t\ud800"))
fragments = st.sampled_from(
    ["SUBAGENT:", "LOCAL_ACTION: x", "REMIND: in 1h, y", "\n", "repo=a.b/c/d, prompt=", "- "]
)


@given(st.lists(noise | fragments, max_size=12).map("".join))
def test_no_text_breaks_it_and_only_line_starts_count(text: str) -> None:
    found = reading(text)
    lines = re.split(r"\r\n?|\n", text)
    starts = [line for line in lines if line.startswith(tuple(f"{word}:" for word in KEYWORDS))]
    assert len(found.commands) <= len(starts) <= len(found.commands) + len(found.skipped)
