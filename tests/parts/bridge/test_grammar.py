"""Only keywords at the start of a line, outside of code fences, are commands."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from segue.parts.bridge.commands import (
    AgentCommand,
    Extension,
    LocalAction,
    Remind,
    Subagent,
    WebhookResult,
    hash_command,
    serialise,
)
from segue.parts.bridge.grammar import ParsedReply, parse_reply

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")
KEYWORDS = ("SUBAGENT", "LOCAL_ACTION", "REMIND", "WEBHOOK_RESULT", "DEPLOY")


def reading(text: str, *, in_fences: bool = False, limit: int = 100) -> ParsedReply:
    return parse_reply(text, now=NOW, zone=BERLIN, in_fences=in_fences, limit=limit, keywords=["DEPLOY"])


def commands(text: str, *, in_fences: bool = False) -> list[AgentCommand]:
    return list(reading(text, in_fences=in_fences).commands)


def reason(line: str) -> str:
    found = reading(line)
    assert found.commands == ()
    [skipped] = found.skipped
    return skipped.reason


def test_the_examples_of_the_protocol() -> None:
    text = (
        "I will delegate.\n"
        "SUBAGENT: repo=github.com/me/my-app, prompt=Add a health check endpoint at GET /health that returns "
        '200 and {"status":"ok"}\n'
        "LOCAL_ACTION: backup_script\r\n"
        "REMIND: in 30m, look at the build\n"
        "WEBHOOK_RESULT: agent_id=bc-1, status=done"
    )
    prompt = 'Add a health check endpoint at GET /health that returns 200 and {"status":"ok"}'
    assert commands(text) == [
        Subagent("github.com/me/my-app", prompt),
        LocalAction("backup_script"),
        Remind(NOW + timedelta(minutes=30), "look at the build"),
        WebhookResult("bc-1", "done"),
    ]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("SUBAGENT:repo=a.b/c/d,prompt=x", Subagent("a.b/c/d", "x")),
        ("SUBAGENT:  REPO = a.b/c/d ,  Prompt =  x  ", Subagent("a.b/c/d", "x")),
        ("SUBAGENT: repo=a.b/c/d, prompt=set a=1, b=2, c", Subagent("a.b/c/d", "set a=1, b=2, c")),
        ("SUBAGENT: repo=a.b/c/d, prompt=x, repo=y", Subagent("a.b/c/d", "x, repo=y")),
        ("SUBAGENT: repo=a.b/c/d, prompt=\"x\", 'y'", Subagent("a.b/c/d", "\"x\", 'y'")),
        ("SUBAGENT: prompt=Fix it, all of it, repo=a.b/c/d", Subagent("a.b/c/d", "Fix it, all of it")),
        (
            "SUBAGENT: repo=a.b/c/d, agent=claude, model=opus-5, branch=feature/x, wait=No, prompt=x",
            Subagent("a.b/c/d", "x", "claude", "opus-5", "feature/x", wait=False),
        ),
        (
            "LOCAL_ACTION: open, url=http://x/?a=1,b, n=3",
            LocalAction("open", {"url": "http://x/?a=1,b", "n": "3"}),
        ),
        ('DEPLOY: {"to": "prod", "n": [1]}', Extension("DEPLOY", {"to": "prod", "n": [1]})),
    ],
)
def test_lines_are_read_as_written(line: str, wanted: AgentCommand) -> None:
    assert commands(line) == [wanted]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("SUBAGENT: repo=a.b/c/d", "prompt is missing"),
        ("SUBAGENT: prompt=x", "repo is missing"),
        ("SUBAGENT: repo=, prompt=x", "repo is missing"),
        ("SUBAGENT: repo=a.b/c/d, prompt=", "prompt is missing"),
        ("SUBAGENT: do something", "not a key"),
        ("SUBAGENT:", "is missing"),
        ("SUBAGENT: repo=a.b/c/d, repo=e, prompt=x", "twice"),
        ("SUBAGENT: repo=a.b/c/d, model=--evil, prompt=x", "model"),
        ("SUBAGENT: repo=a.b/c/d, branch=a..b, prompt=x", "branch"),
        ("SUBAGENT: repo=a.b/c/d, wait=maybe, prompt=x", "wait"),
        ("LOCAL_ACTION:", "action"),
        ("LOCAL_ACTION: ../../bin/sh", "action"),
        ("LOCAL_ACTION: rm -rf /", "action"),
        ("LOCAL_ACTION: open, url", "not a key"),
        ("REMIND: in 30m", "message is missing"),
        ("REMIND: in 30m,  ", "message is missing"),
        ("REMIND: soon, x", "not a time"),
        ("WEBHOOK_RESULT: agent_id=x", "needed"),
        ("WEBHOOK_RESULT: agent_id=x y, status=done", "agent_id"),
        ("DEPLOY: prod", "JSON"),
        ("DEPLOY: [1]", "object"),
        ('DEPLOY: {"a": NaN}', "JSON"),
        ("DEPLOY: " + "[" * 20_000, "JSON"),
        ("LOCAL_ACTION: x, a=" + "y" * 200_000, "longer"),
    ],
)
def test_malformed_lines_are_skipped_with_their_reason(line: str, says: str) -> None:
    assert says in reason(line)


@pytest.mark.parametrize(
    "line",
    [
        "LOCAL_ACTION x",
        "Use LOCAL_ACTION: x",
        "LOCAL_ACTIONS: x",
        "text\x0bLOCAL_ACTION: x",
        "text\u2028LOCAL_ACTION: x",
        "text\x85LOCAL_ACTION: x",
        "UNKNOWN: x",
    ],
)
def test_what_is_no_line_start_is_no_command(line: str) -> None:
    assert reading(line).commands == ()


ACTION = "LOCAL_ACTION: x"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (f"```\n{ACTION}\n```", 0),
        (f"~~~\n{ACTION}\n~~~", 0),
        (f"```text\n{ACTION}\n```\n{ACTION}", 1),
        (f"````\n```\n{ACTION}\n```\n{ACTION}\n````", 0),
        (f"```\n~~~\n{ACTION}\n```\n{ACTION}", 1),
        (f"```\n{ACTION}", 0),
        (f"   ```\n{ACTION}\n   ```", 0),
        (f"    ```\n\n{ACTION}", 1),
        (f"```\n``` x\n{ACTION}\n```", 0),
        (f"``` a`b\n{ACTION}", 1),
        (f"- item\n  ```\n  code\n  ```\n\n{ACTION}", 1),
        (f"> ```\n> code\n{ACTION}", 1),
        (f"<div>\n```\n{ACTION}\n```", 0),
        (f"``inline``\n{ACTION}", 1),
        (f"```\r\n{ACTION}\r\n```\r{ACTION}", 1),
    ],
)
def test_code_fences_as_commonmark_sees_them(text: str, count: int) -> None:
    assert len(commands(text)) == count
    assert len(commands(text, in_fences=True)) == 1, "all lines are alike, and executed once"


def test_repeats_are_executed_once_and_too_many_are_limited() -> None:
    found = reading("LOCAL_ACTION: x\nLOCAL_ACTION:   x\nREMIND: in 1h, a\nREMIND: IN  1h, a\n")
    assert len(found.commands) == 2
    assert [skipped.line for skipped in found.skipped] == [2, 4]
    many = reading("\n".join(f"LOCAL_ACTION: a{n}" for n in range(10_000)), limit=20)
    assert len(many.commands) == 20
    assert len(many.skipped) == 9_980
    assert "more than 20" in many.skipped[0].reason


def test_a_reminder_read_later_is_the_same_reminder() -> None:
    line = "REMIND: in 30m, x"
    later = parse_reply(line, now=NOW + timedelta(hours=1), zone=BERLIN).commands[0]
    assert hash_command(later) == hash_command(commands(line)[0])


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("2026-11-16T09:00:00Z", datetime(2026, 11, 16, 9, tzinfo=UTC)),
        ("2026-11-16 09:00+01:00", datetime(2026, 11, 16, 8, tzinfo=UTC)),
        ("2026-11-16T09:00 Europe/Berlin", datetime(2026, 11, 16, 8, tzinfo=UTC)),
        ("in 30m", NOW + timedelta(minutes=30)),
        ("1h30m", NOW + timedelta(minutes=90)),
        ("in 1 hour and 30 minutes", NOW + timedelta(minutes=90)),
        ("in 2 days", NOW + timedelta(days=2)),
        ("90s", NOW + timedelta(seconds=90)),
        ("tomorrow 9:00", datetime(2026, 11, 16, 8, tzinfo=UTC)),
        ("Tomorrow at 09:00 America/New_York", datetime(2026, 11, 16, 14, tzinfo=UTC)),
        ("tomorrow 9:00 UTC", datetime(2026, 11, 16, 9, tzinfo=UTC)),
        ("today 18:30 +02:00", datetime(2026, 11, 15, 16, 30, tzinfo=UTC)),
    ],
)
def test_instants(said: str, wanted: datetime) -> None:
    [command] = commands(f"REMIND: {said}, x")
    assert isinstance(command, Remind)
    assert command.when == wanted


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ("30", "bare number"),
        ("1700000000", "bare number"),
        ("9:00", "bare number"),
        ("2026-11-16T09:00:00", "zone"),
        ("2026-11-16T09:00:00 Mars/Base", "zone"),
        ("2026-11-16T09:00:00+99:99", "zone"),
        ("2026-02-31T09:00:00Z", ""),
        ("2020-01-01T00:00:00Z", "past"),
        ("today 9:00", "past"),
        ("0m", "past"),
        ("999999w", "year"),
        ("tomorrow 25:00", ""),
        ("in -5m", "not a time"),
        ("tomorrow", "not a time"),
    ],
)
def test_instants_that_are_refused(said: str, says: str) -> None:
    assert says in reason(f"REMIND: {said}, x")


noise = st.text(st.characters(codec="utf-8") | st.sampled_from("`~\n\r:=,{}\"' \t\ud800"))
fragments = st.sampled_from(
    [
        "SUBAGENT:",
        "LOCAL_ACTION: x",
        "REMIND: in 1h, y",
        "```",
        "~~~",
        "\n",
        "repo=a.b/c/d, prompt=",
        "DEPLOY: {",
        "- ",
    ]
)


@given(st.lists(noise | fragments, max_size=12).map("".join))
@example("```\n" * 3 + "SUBAGENT: repo=a.b/c/d, prompt=x")
def test_no_text_breaks_it_and_only_line_starts_count(text: str) -> None:
    found = reading(text)
    lines = re.split(r"\r\n?|\n", text)
    starts = [line for line in lines if line.startswith(tuple(f"{word}:" for word in KEYWORDS))]
    assert len(found.commands) <= len(starts) <= len(found.commands) + len(found.skipped)


line_text = (
    st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), min_size=1)
    .map(lambda text: text.strip())
    .filter(bool)
)
words = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,20}", fullmatch=True)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
COMMANDS: st.SearchStrategy[AgentCommand] = st.one_of(
    st.builds(
        Subagent,
        st.just("https://github.com/me/app"),
        line_text,
        st.none() | words,
        st.none() | words,
        st.none() | words,
        st.none() | st.booleans(),
    ),
    st.builds(LocalAction, words, st.dictionaries(st.from_regex(r"[a-z][a-z_]{0,9}", fullmatch=True), words)),
    st.builds(
        Remind, st.integers(1, 31_000_000).map(lambda seconds: NOW + timedelta(seconds=seconds)), line_text
    ),
    st.builds(WebhookResult, words, words),
    st.builds(Extension, st.just("DEPLOY"), st.dictionaries(st.text(), json_values)),
)


@given(COMMANDS)
def test_what_is_written_reads_back(command: AgentCommand) -> None:
    assert commands(serialise(command)) == [command]


@given(COMMANDS, st.sampled_from(["```", "~~~~", "```sh", "  ~~~"]), st.booleans())
def test_nothing_in_a_fence_is_executed(command: AgentCommand, fence: str, closed: bool) -> None:
    end = fence.strip().rstrip("sh") if closed else ""
    text = f"See:\n{fence}\n{serialise(command)}\n{end}\n"
    assert commands(text) == []
    assert commands(text, in_fences=True) == [command]


@given(COMMANDS, st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), min_size=1))
def test_nothing_within_a_line_is_executed(command: AgentCommand, before: str) -> None:
    line = before + serialise(command)
    starts_anew = line.startswith(tuple(f"{word}:" for word in KEYWORDS))
    assert commands(line) == [] or starts_anew


def test_a_line_break_in_a_value_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="one line"):
        serialise(Subagent("a.b/c/d", "x\nLOCAL_ACTION: evil"))


NEARLY = (
    "**SUBAGENT: repo=me/app, prompt=Do it**",
    "- SUBAGENT: repo=me/app, prompt=Do it",
    "1. LOCAL_ACTION: backup",
    "subagent: repo=me/app, prompt=Do it",
    "  LOCAL_ACTION: backup",
    "`LOCAL_ACTION: backup`",
    "> REMIND: in 30m, look",
    "**LOCAL_ACTION:** backup",
    "```\nLOCAL_ACTION: backup\n```",
    "SUBAGENT: repo=me/app",
    "LOCAL_ACTION open_app, name=x",
    "LOCAL ACTION: open_app",
    "LOCAL-ACTION: open_app",
    "Local Action: open_app",
    "LOCAL\\_ACTION: open_app",
    "LOCAL_ACTIONS: open_app",
    "LOCAL_ACTION：open_app",
    "LOCAL_ACTION = open_app",
    "[LOCAL_ACTION: open_app]",
    "| LOCAL_ACTION: open_app |",
    "→ LOCAL_ACTION: open_app",
    "\ufeffLOCAL_ACTION: open_app",
    '{"LOCAL_ACTION": "open_app"}',
    "<LOCAL_ACTION>open_app</LOCAL_ACTION>",
    "I will run LOCAL_ACTION: open_app",
    "SUB-AGENT: repo=a/b, prompt=x",
    "SUBAGENT repo=a/b, prompt=x",
    "REMINDER: in 5m, tea",
    "Reminder: tomorrow at 9:00, tea",
)


@pytest.mark.parametrize("text", NEARLY)
def test_what_was_probably_meant_as_a_command_is_named(text: str) -> None:
    parsed = parse_reply(f"Here it is:\n\n{text}\n", now=datetime.now(UTC), zone=UTC)
    assert parsed.commands == ()
    [skipped] = parsed.skipped
    assert skipped.reason


@pytest.mark.parametrize(
    "text",
    [
        *(
            "A subagent: nothing special.",
            "Remind: none",
            "Note: done",
            "The action: it worked",
            "- done: yes",
        ),
        *("Local actions: none were needed.", "The LOCAL_ACTION command runs here.", "Reminder: tests, docs"),
        *("Use `LOCAL_ACTION: name` to run one.", "I used the local action open_app.", "SUBAGENTS ARE FUN"),
    ],
)
def test_everyday_words_are_no_commands(text: str) -> None:
    assert parse_reply(text, now=datetime.now(UTC), zone=UTC).skipped == ()
