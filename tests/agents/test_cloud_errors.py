"""Refusals in all their shapes, statuses in all their words, and keys that do not open."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.agents.cloud.errors import read_refusal
from segue.agents.cursor_cloud.api import CursorCloudOptions, Status, parse_status
from segue.agents.cursor_cloud.stream import read_stream_error
from segue.domain.errors import CredentialsError
from segue.domain.events import AgentStarted, AgentUsage
from segue.domain.options import OptionError, read_options
from segue.system.http.client import HttpResponse
from tests.agents.cloud_place import KEY, LAUNCH, LOOK, STREAM, CloudPlace

JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["error", "code", "message", "helpUrl"]), inner)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("status", "body", "code", "message"),
    [
        (409, {"error": {"code": "agent_busy", "message": "busy"}}, "agent_busy", "busy"),
        (500, {"code": "internal", "message": "Error"}, "internal", "Error"),
        (400, {"error": "pool not found"}, "validation_error", "pool not found"),
        (429, {"error": "Too Many Requests", "message": "Slow down"}, "rate_limit_exceeded", "Slow down"),
        (502, "<html>Bad Gateway</html>", "http_502", "HTTP status 502"),
        (403, {"error": {"code": "x", "message": "No.", "helpUrl": "https://h"}}, "x", "No. See https://h"),
    ],
)
def test_every_shape_of_refusal_is_read(status: int, body: Any, code: str, message: str) -> None:
    raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    error = read_refusal(HttpResponse(status, {}, raw))
    assert (error.code, error.message, error.status) == (code, message, status)


@given(st.integers(300, 599), JSON)
def test_no_body_is_too_strange(status: int, body: Any) -> None:
    error = read_refusal(HttpResponse(status, {}, json.dumps(body).encode()))
    assert error.code
    assert error.message
    assert read_stream_error(body).code


def test_every_word_has_one_meaning() -> None:
    words = {
        Status.QUEUED: ("CREATING", "PENDING"),
        Status.RUNNING: ("running",),
        Status.SUCCEEDED: ("FINISHED",),
        Status.FAILED: ("ERROR", "FAILED"),
        Status.CANCELLED: ("CANCELLED", "STOPPED"),
        Status.EXPIRED: ("EXPIRED",),
        Status.GONE: ("DELETED",),
        Status.UNKNOWN: ("HIBERNATING", 7, None),
    }
    for status, said in words.items():
        assert {parse_status(word) for word in said} == {status}
        assert status.is_terminal is (status not in (Status.QUEUED, Status.RUNNING, Status.UNKNOWN))


@pytest.mark.parametrize("key", ["", "two words"])
def test_without_a_key_nothing_is_asked(cloud: CloudPlace, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("CURSOR_API_KEY", key)
    assert cloud.run(cloud.job()).kind == "auth"
    assert cloud.asked() == []


@pytest.mark.parametrize("name", ["api_key_not_found", "plan_required", "integration_not_connected"])
@pytest.mark.parametrize("version", ["v0", "v1"])
def test_denied_launch_is_a_matter_of_credentials(cloud: CloudPlace, name: str, version: str) -> None:
    cloud.breaks(name, f"POST /{version}/agents")
    ended = cloud.run(cloud.job(), api_version=version)
    assert ended.kind == "auth"
    assert name in ended.message
    assert len([one for one in cloud.asked() if one["method"] == "POST"]) == 1, "asking again would not help"


def test_revoked_key_leaves_the_agent_at_work(cloud: CloudPlace) -> None:
    cloud.plays(hold=True)
    for path in (LOOK, STREAM):
        cloud.breaks("api_key_not_found", path, times=0)
    with pytest.raises(CredentialsError, match="api_key_not_found") as refused:
        cloud.run(cloud.job())
    assert "on resume it is found again. https://" in refused.value.kept, "with another key"


@pytest.mark.parametrize("retry_after", [None, "0", "Wed, 21 Oct 2015 07:28:00 GMT"])
@pytest.mark.parametrize("where", [LAUNCH, LOOK, "GET /v1/agents/*/usage"])
def test_too_many_requests_are_waited_out(cloud: CloudPlace, retry_after: str | None, where: str) -> None:
    cloud.breaks("rate_limit_exceeded", where, times=4, retry_after=retry_after)
    ended = cloud.run(cloud.job())
    assert ended.outcome.failure is None
    assert ended.outcome.usage is not None
    assert len(ended.of(AgentStarted)) == 1


def test_limit_that_outlasts_the_deadline_says_until_when(cloud: CloudPlace) -> None:
    cloud.breaks("rate_limit_exceeded", LAUNCH, times=0, retry_after="900")
    before = time.time()
    ended = cloud.run(cloud.job(wall=5))
    assert ended.kind == "rate_limit"
    until = ended.outcome.failure.until if ended.outcome.failure else None
    assert until is not None
    assert before + 890 < until < time.time() + 910
    assert len(cloud.asked(LAUNCH)) == 1


def test_server_that_is_not_there_was_not_asked_for_anything(cloud: CloudPlace) -> None:
    ended = cloud.run(cloud.job(), base_url="http://127.0.0.1:1")
    assert ended.kind == "outage"
    assert "did not say whether" not in ended.message
    assert KEY not in str(ended.items)


def test_usage_is_no_condition(cloud: CloudPlace) -> None:
    cloud.breaks("internal", "GET /v1/agents/*/usage", times=0)
    ended = cloud.run(cloud.job())
    assert ended.outcome.failure is None
    assert ended.outcome.usage is None
    assert ended.of(AgentUsage) == []


@pytest.mark.parametrize(
    "options",
    [
        {"base_url": "http://api.cursor.com"},
        {"base_url": "https://user:secret@api.cursor.com"},
        {"base_url": "api.cursor.com"},
        {"repository": "/srv/app.git"},
        {"api_version": "v2"},
        {"api_key": "crsr_x"},
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        read_options(CursorCloudOptions, options)
