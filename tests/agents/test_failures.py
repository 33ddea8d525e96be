"""Every agent says in the same words why it failed: one row per agent and kind, from what the programs print.

The texts were recorded from the programs, or reproduced from their documentation, where an account is needed.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from segue.agents.classify import read_last_words
from segue.agents.claude.lines import ClaudeLines
from segue.agents.cloud.errors import BY_US, judge_refusal, make_unreachable, read_refusal
from segue.agents.codex.lines import CodexLines
from segue.agents.cursor.lines import CursorLines
from segue.agents.cursor_cloud.api import CURSOR, Status, judge_end
from segue.agents.local.launch import ProcessEnd
from segue.domain.job import Mode
from segue.domain.outcome import Failure, FailureKind
from segue.system.http.client import HttpError, HttpResponse
from tests.agents.stand_in import ended

ROME = ZoneInfo("Europe/Rome")
NOW = datetime(2026, 3, 10, 12, 0, tzinfo=ROME).timestamp()
RESET = datetime(2026, 3, 10, 15, 0, tzinfo=ROME).timestamp()

Told = Callable[[], Failure | None]


def _printed(lines: Any, printed: tuple[dict[str, Any] | str, ...], how: ProcessEnd) -> Failure | None:
    for line in printed:
        lines.read(line if isinstance(line, str) else json.dumps(line))
    found: Failure | None = lines.outcome(how, NOW).failure
    return found


def claude(*printed: dict[str, Any] | str, **how: Any) -> Told:
    return lambda: _printed(ClaudeLines(Mode.EDIT), printed, ended(**how))


def codex(*printed: dict[str, Any] | str, gave_up: bool = False, **how: Any) -> Told:
    def told() -> Failure | None:
        lines = CodexLines(Mode.EDIT, was_given_up=lambda: gave_up)
        for line in printed:
            lines.read(line if isinstance(line, str) else json.dumps(line))
        return lines.outcome(ended(**how), NOW).failure

    return told


def cursor(*printed: dict[str, Any] | str, **how: Any) -> Told:
    return lambda: _printed(CursorLines(Mode.EDIT), printed, ended(**how))


def command(out: str = "", err: str = "", **how: Any) -> Told:
    return lambda: ProcessEnd(ended(**how).exit, out, err).failure(NOW)


def run_said(error: str, status: Status = Status.FAILED) -> Told:
    return lambda: judge_end(status, error)


def api_said(status: int, code: str = "", message: str = "no") -> Told:
    body = json.dumps({"error": {"code": code, "message": message}} if code else {}).encode()
    return lambda: judge_refusal(read_refusal(HttpResponse(status, {}, body)), False, CURSOR)


CLAUDE_INIT = {"type": "system", "subtype": "init", "session_id": "s", "model": "m"}


def claude_result(said: str, **more: Any) -> dict[str, Any]:
    known = {"type": "result", "subtype": "success", "is_error": True, "terminal_reason": "api_error"}
    return {**known, "result": said, "session_id": "s", **more}


def codex_failed(said: str) -> tuple[dict[str, Any], ...]:
    started = {"type": "thread.started", "thread_id": "t"}
    return started, {"type": "error", "message": said}, {"type": "turn.failed", "error": {"message": said}}


DENIED = (
    {"type": "assistant", "message": {"content": [{"type": "tool_use", "id": "1", "name": "Write"}]}},
    {
        "type": "user",
        "message": {"content": [{"type": "tool_result", "tool_use_id": "1", "is_error": True}]},
        "tool_result_meta": [{"id": "1", "permission_decision": {"decision": "reject"}}],
    },
    claude_result("I may not.", is_error=False, permission_denials=[{"tool_use_id": "1"}]),
)
DECLINED = (
    {"type": "item.completed", "item": {"id": "1", "type": "command_execution", "status": "declined"}},
    {"type": "turn.completed", "usage": {}},
)
REJECTED = (
    {
        "type": "tool_call",
        "subtype": "completed",
        "call_id": "1",
        "tool_call": {"shellToolCall": {"args": {"command": "make"}, "result": {"rejected": {"reason": ""}}}},
    },
    {"type": "result", "subtype": "success", "is_error": False, "result": "I may not."},
)
LIMIT = "You've hit your session limit · resets 3pm (Europe/Rome)"
CODEX_LIMIT = "You've hit your usage limit. Upgrade to Pro or try again at 3:00 PM (Europe/Rome)."
CURSOR_LIMIT = "T: You've hit your usage limit. Your limit resets at 3pm (Europe/Rome)."
REFUSED_CONNECTION = "connect ECONNREFUSED 127.0.0.1:443"
CODEX_BUSY = "We're currently experiencing high demand, which may cause temporary errors."
CODEX_LONG = "Codex ran out of room in the model's context window. Start a new thread before retrying."
FLAGGED = "This request was blocked: your prompt was flagged as potentially violating our usage policy."
FILTERED = "Incomplete response returned, reason: content_filter"
NO_MODEL = "The model `foo` does not exist or you do not have access to it."

Rows = dict[FailureKind, list[Told]]

TABLE: dict[str, Rows] = {
    "claude": {
        FailureKind.USAGE_LIMIT: [
            claude(
                claude_result(f"API Error: Request rejected (429) · {LIMIT}", api_error_status=429), code=1
            ),
            claude(claude_result(f"Claude AI usage limit reached|{int(RESET)}"), code=1),
            claude(code=1, err=LIMIT),
        ],
        FailureKind.RATE_LIMIT: [
            claude(
                claude_result("API Error: Request rejected (429) · slow down", api_error_status=429), code=1
            )
        ],
        FailureKind.OUTAGE: [
            claude(claude_result("API Error: 529 Overloaded", api_error_status=529), code=1),
            claude(claude_result("API Error: Connection error.", api_error="connection_failed"), code=1),
            claude(claude_result("API Error: Server error mid-response.", api_error_status=None), code=1),
        ],
        FailureKind.AUTH: [
            claude(claude_result("Invalid API key · Fix external API key", api_error_status=401), code=1),
            claude(code=1, err="Invalid API key · Please run /login"),
        ],
        FailureKind.CONTEXT: [
            claude(claude_result("Prompt is too long", terminal_reason=None), code=1),
            claude(claude_result("No.", terminal_reason="prompt_too_long"), code=1),
            claude(
                claude_result(
                    "API Error: 400 prompt is too long: 9 tokens > 8 maximum", api_error_status=400
                ),
                code=1,
            ),
        ],
        FailureKind.REFUSED: [
            claude(CLAUDE_INIT, *DENIED),
            claude(claude_result("API Error: something new", safety_stops=1), code=1),
            claude(claude_result(f"API Error: 400 {FLAGGED}", api_error_status=400), code=1),
        ],
        FailureKind.NOT_STARTED: [
            claude(claude_result("There's an issue with the model", api_error_status=404), code=1),
            claude(claude_result(f"API Error: 400 {NO_MODEL}", api_error_status=400), code=1),
        ],
        FailureKind.MAX_TURNS: [
            claude(claude_result("", subtype="error_max_turns", terminal_reason="max_turns"), code=1)
        ],
        FailureKind.CRASH: [claude(CLAUDE_INIT, code=143), claude(code=None, signal=signal.SIGKILL)],
        FailureKind.HANG: [claude(CLAUDE_INIT, code=None, reason="idle")],
        FailureKind.TRUNCATED: [
            claude(CLAUDE_INIT, '{"type":"result","subty'),
            claude(claude_result("API Error", api_error="max_output_tokens"), code=1),
        ],
        FailureKind.UNKNOWN: [
            claude(claude_result("API Error: 418 teapot", api_error_status=418), code=1),
            claude(claude_result("", subtype="error_new_kind", is_error=False), code=0),
        ],
    },
    "codex": {
        FailureKind.USAGE_LIMIT: [codex(*codex_failed(CODEX_LIMIT), code=1)],
        FailureKind.RATE_LIMIT: [
            codex(*codex_failed("exceeded retry limit, last status: 429 Too Many Requests"), code=1)
        ],
        FailureKind.OUTAGE: [
            codex(*codex_failed(CODEX_BUSY), code=1),
            codex(*codex_failed("exceeded retry limit, last status: 503 Service Unavailable"), code=1),
            codex(*codex_failed("stream disconnected before completion: Transport error"), code=1),
            codex(
                {"type": "error", "message": "Reconnecting... waiting for network"},
                gave_up=True,
                code=None,
                reason="ended",
            ),
        ],
        FailureKind.AUTH: [
            codex(*codex_failed("unexpected status 401 Unauthorized: no"), code=1),
            codex(*codex_failed("Missing environment variable: `KEY`."), code=1),
        ],
        FailureKind.CONTEXT: [
            codex(*codex_failed(CODEX_LONG), code=1),
            codex(*codex_failed("unexpected status 413 Payload Too Large: no"), code=1),
        ],
        FailureKind.REFUSED: [
            codex(*DECLINED),
            codex(*codex_failed(FLAGGED), code=1),
            codex(*codex_failed(f"stream disconnected: {FILTERED}"), code=1),
        ],
        FailureKind.NOT_STARTED: [
            codex(*codex_failed(NO_MODEL), code=1),
        ],
        FailureKind.CRASH: [codex(code=None, signal=signal.SIGTERM), codex(code=101, err="panicked")],
        FailureKind.HANG: [codex(code=None, reason="idle")],
        FailureKind.TRUNCATED: [
            codex('{"type":"item.comp'),
            codex(*codex_failed("Incomplete response returned, reason: max_output_tokens"), code=1),
        ],
        FailureKind.UNKNOWN: [
            codex(*codex_failed("something new"), code=1),
            codex(*codex_failed(""), code=1),
        ],
    },
    "cursor": {
        FailureKind.USAGE_LIMIT: [
            cursor(CURSOR_LIMIT, code=1),
            cursor(code=1, err=CURSOR_LIMIT),
        ],
        FailureKind.RATE_LIMIT: [cursor(code=1, err="Error: 429 Too Many Requests")],
        FailureKind.OUTAGE: [
            cursor(code=1, err="ConnectError: [unavailable] Error"),
            cursor({"type": "result", "is_error": True, "result": "S: [unavailable] Error"}),
        ],
        FailureKind.AUTH: [
            cursor(code=1, err="Error: Authentication required. Please run 'agent login' first"),
            cursor(code=1, err="\x1b[33mWarning: The provided API key is invalid.\x1b[0m"),
        ],
        FailureKind.CONTEXT: [
            cursor({"type": "result", "is_error": True, "result": "Error: conversation too long"}, code=0)
        ],
        FailureKind.REFUSED: [cursor(*REJECTED)],
        FailureKind.NOT_STARTED: [cursor(code=1, err="Cannot use this model: x. Available models: y")],
        FailureKind.CRASH: [cursor(code=130, err="Aborting operation..."), cursor(code=None, signal=9)],
        FailureKind.HANG: [cursor(code=None, reason="idle")],
        FailureKind.TRUNCATED: [cursor('{"type":"assistant","mess')],
        FailureKind.UNKNOWN: [cursor({"type": "result", "is_error": True, "result": "Hm."})],
    },
    "cursor-cloud": {
        FailureKind.USAGE_LIMIT: [run_said(CODEX_LIMIT)],
        FailureKind.RATE_LIMIT: [
            api_said(429, "rate_limit_exceeded"),
            run_said("Error: 429 Too Many Requests"),
        ],
        FailureKind.OUTAGE: [
            api_said(503),
            lambda: judge_refusal(
                make_unreachable(HttpError("connection refused", sent=False)), False, CURSOR
            ),
            run_said("upstream: 503 Service Unavailable"),
        ],
        FailureKind.AUTH: [api_said(401), api_said(403, "plan_required")],
        FailureKind.CONTEXT: [run_said("The prompt is too long for this model.")],
        FailureKind.NOT_STARTED: [run_said(NO_MODEL)],
        FailureKind.CRASH: [run_said(""), run_said("the machine died")],
        FailureKind.HANG: [lambda: BY_US["hang"]],
        FailureKind.UNKNOWN: [run_said("", Status.CANCELLED), api_said(409, "agent_id_conflict")],
    },
    "command": {
        FailureKind.USAGE_LIMIT: [command(LIMIT), command(err=LIMIT, code=1)],
        FailureKind.RATE_LIMIT: [command(err="litellm.RateLimitError: 429 Too Many Requests", code=1)],
        FailureKind.OUTAGE: [
            command(err=REFUSED_CONNECTION, code=1),
            command(err="The model is overloaded. Please try again later.", code=1),
        ],
        FailureKind.AUTH: [command(err="Incorrect API key provided: sk-…", code=1)],
        FailureKind.CONTEXT: [
            command(err="This model's maximum context length is 128000 tokens.", code=1),
        ],
        FailureKind.NOT_STARTED: [command(err=f"litellm.NotFoundError: {NO_MODEL}", code=1)],
        FailureKind.MAX_TURNS: [
            command("Error: Reached max turns (3)", code=1),
            command(err="Reached max session turns for this session.", code=53),
        ],
        FailureKind.CRASH: [command(err="Traceback\nKeyError: 'x'", code=1), command(signal=11, code=None)],
        FailureKind.HANG: [command(code=None, reason="idle")],
    },
}


def cases() -> list[Any]:
    return [
        pytest.param(kind, told, id=f"{agent}-{kind}-{number}")
        for agent, rows in TABLE.items()
        for kind, found in rows.items()
        for number, told in enumerate(found)
    ]


@pytest.mark.parametrize(("kind", "told"), cases())
def test_failure_has_its_kind(kind: FailureKind, told: Told) -> None:
    failure = told()
    assert failure is not None, "it is taken for a success"
    assert failure.kind is kind, failure.message
    assert failure.message.strip()


def test_plan_without_the_agent_is_a_limit_without_an_end() -> None:
    for said in ("To use Codex with your ChatGPT plan, upgrade to Plus: https://…", "usage_not_included"):
        failure = codex(*codex_failed(said), code=1)()
        assert failure is not None
        assert (failure.kind, failure.until) == (FailureKind.USAGE_LIMIT, None)


def test_codex_says_the_kind_of_an_error_in_its_session_file(tmp_path: Path) -> None:
    folder = tmp_path / "sessions" / "2026" / "03" / "10"
    folder.mkdir(parents=True)
    error = {"message": "…", "codex_error_info": "context_window_exceeded"}
    last = {"type": "event_msg", "payload": {"type": "task_complete", "error": error}}
    (folder / "rollout-1-t.jsonl").write_text(json.dumps(last) + "\n")
    lines = CodexLines(Mode.EDIT, home=tmp_path)
    for line in codex_failed("words that nobody knows"):
        lines.read(json.dumps(line))
    failure = lines.outcome(ended(code=1), NOW).failure
    assert failure is not None
    assert failure.kind is FailureKind.CONTEXT


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("API Error: 529 Overloaded. Try again later.", FailureKind.OUTAGE),
        ("I tried.\n\nExecution failed: 429 Too Many Requests", FailureKind.RATE_LIMIT),
        ("[error] Prompt is too long", FailureKind.CONTEXT),
        ('{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}', FailureKind.OUTAGE),
        ('{"error":{"message":"The model `x-9` does not exist"}}', FailureKind.NOT_STARTED),
        ("LLM request rejected: Your credit balance is too low", FailureKind.USAGE_LIMIT),
        ("An error occurred while processing your request.", FailureKind.UNKNOWN),
        ("I'm sorry, but I can't assist with that request.", FailureKind.REFUSED),
        ("I cannot find anything to change on this branch.", None),
        ('{"errors": 0, "checked": 12}', None),
        ("The error: message is longer now.", None),
        ("```\nError: an example\n```", None),
    ],
)
def test_error_as_the_last_word(text: str, kind: FailureKind | None) -> None:
    failure = read_last_words(text, NOW)
    assert (failure and failure.kind) is kind


@pytest.mark.parametrize("agent", ["claude", "codex", "cursor", "command"])
def test_usage_limit_says_when_it_ends(agent: str) -> None:
    rows = TABLE[agent][FailureKind.USAGE_LIMIT]
    for told in rows:
        failure = told()
        assert failure is not None
        assert failure.until is not None
        assert 0 <= failure.until - RESET <= 60, "never before, and not much later"
