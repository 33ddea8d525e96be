"""Refusals in all their shapes, statuses in all their words, and keys that do not open."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.agents.cloud.errors import read_refusal
from segue.agents.cursor_cloud.agent import CursorCloudAgent
from segue.agents.cursor_cloud.api import CursorCloudOptions, Status, make_agent_id, parse_status
from segue.agents.cursor_cloud.stream import read_stream_error
from segue.domain.errors import CredentialsError
from segue.domain.events import AgentStarted, AgentUsage
from segue.domain.options import OptionError, read_options
from segue.runtime import registry
from segue.system.http.client import HttpResponse
from segue.system.process.processes import Processes
from tests.agents.cloud_place import CANCEL, KEY, LAUNCH, LOOK, STREAM, CloudPlace
from tests.agents.items import lend

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
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
        (401, None, "unauthorized", "HTTP status 401"),
        (
            403,
            {"error": {"code": "integration_not_connected", "message": "No.", "helpUrl": "https://h"}},
            "integration_not_connected",
            "No. See https://h",
        ),
    ],
)
def test_every_shape_of_a_refusal_is_understood(status: int, body: Any, code: str, message: str) -> None:
    raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    error = read_refusal(HttpResponse(status, {}, raw))
    assert (error.code, error.message, error.status) == (code, message, status)


@given(st.integers(300, 599), JSON)
def test_no_body_is_too_strange(status: int, body: Any) -> None:
    error = read_refusal(HttpResponse(status, {}, json.dumps(body).encode()))
    assert error.code
    assert error.message
    assert read_stream_error(body).code


def test_what_a_refusal_means() -> None:
    def of(status: int, code: str) -> Any:
        return read_refusal(HttpResponse(status, {"retry-after": "7"}, json.dumps({"code": code}).encode()))

    assert of(401, "api_key_not_found").denied
    assert of(403, "plan_required").denied
    assert of(404, "run_not_found").gone
    assert of(409, "agent_archived").gone
    assert not of(409, "agent_busy").gone
    assert of(429, "x").retry_after == 7
    assert of(503, "x").unsure
    assert of(409, "agent_id_conflict").unsure
    assert not of(400, "validation_error").unsure


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("CREATING", Status.QUEUED),
        ("PENDING", Status.QUEUED),
        ("running", Status.RUNNING),
        ("FINISHED", Status.SUCCEEDED),
        ("ERROR", Status.FAILED),
        ("FAILED", Status.FAILED),
        ("CANCELLED", Status.CANCELLED),
        ("STOPPED", Status.CANCELLED),
        ("EXPIRED", Status.EXPIRED),
        ("DELETED", Status.GONE),
        ("HIBERNATING", Status.UNKNOWN),
        (None, Status.UNKNOWN),
        (7, Status.UNKNOWN),
    ],
)
def test_every_word_has_one_meaning(word: object, status: Status) -> None:
    assert parse_status(word) is status
    assert status.is_terminal is (status not in (Status.QUEUED, Status.RUNNING, Status.UNKNOWN))


def test_ids_are_minted_from_tokens() -> None:
    assert make_agent_id("0123456789abcdef0123456789abcdef") == "bc-01234567-89ab-cdef-0123-456789abcdef"
    assert make_agent_id("anything") == make_agent_id("anything") != make_agent_id("anything else")


@pytest.mark.parametrize("key", [None, "", "  ", "two words", "schlüssel", "a\nb"])
def test_without_a_key_nothing_is_asked(
    cloud: CloudPlace, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    monkeypatch.delenv("CURSOR_API_KEY")
    if key is not None:
        monkeypatch.setenv("CURSOR_API_KEY", key)
    agent = CursorCloudAgent(cloud.options(), lend(Processes(cloud.folder)))
    [problem] = agent.check()
    assert problem.exit_code == 4
    assert "CURSOR_API_KEY" in problem.message
    assert cloud.run(cloud.job()).kind == "auth"
    assert cloud.desk.log() == []


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("unauthorized", "API key"),
        ("api_key_not_found", "API key not found"),
        ("plan_required", "paid plan"),
        ("role_forbidden", "role"),
        ("integration_not_connected", "GitHub is not connected"),
    ],
)
def test_a_denied_launch_is_a_matter_of_credentials(cloud: CloudPlace, fault: str, said: str) -> None:
    cloud.desk.breaks(fault, LAUNCH)
    ended = cloud.run(cloud.job())
    assert ended.kind == "auth"
    assert said in ended.message
    assert len(cloud.desk.log()) == 1, "asking again would not help"


def test_a_key_that_is_revoked_while_watching(cloud: CloudPlace) -> None:
    cloud.desk.plays(hold=True)
    cloud.desk.breaks("api_key_not_found", LOOK, times=0)
    cloud.desk.breaks("api_key_not_found", STREAM, times=0)
    with pytest.raises(CredentialsError, match="api_key_not_found") as refused:
        cloud.run(cloud.job())
    assert "on resume it is found again. https://" in refused.value.kept, "with another key"


@pytest.mark.parametrize("retry_after", [None, "0", "Wed, 21 Oct 2015 07:28:00 GMT", "soon"])
@pytest.mark.parametrize("where", [LAUNCH, LOOK, "GET /v1/agents/*/usage"])
def test_too_many_requests_are_waited_out(cloud: CloudPlace, retry_after: str | None, where: str) -> None:
    cloud.desk.breaks("rate_limit_exceeded", where, times=4, retry_after=retry_after)
    ended = cloud.run(cloud.job())
    assert ended.outcome.failure is None
    assert ended.outcome.usage is not None
    assert len(ended.of(AgentStarted)) == 1


def test_a_limit_that_outlasts_the_deadline_says_until_when(cloud: CloudPlace) -> None:
    cloud.desk.breaks("rate_limit_exceeded", LAUNCH, times=0, retry_after="900", shape="overview")
    before = time.time()
    ended = cloud.run(cloud.job(wall=5))
    assert ended.kind == "rate_limit"
    until = ended.outcome.failure.until if ended.outcome.failure else None
    assert until is not None
    assert before + 890 < until < time.time() + 910
    assert len(cloud.asked(LAUNCH)) == 1


def test_a_limit_without_a_time_is_tried_until_the_deadline(cloud: CloudPlace) -> None:
    cloud.desk.breaks("rate_limit_exceeded", LAUNCH, times=0)
    ended = cloud.run(cloud.job(wall=5.0))
    assert ended.kind in ("rate_limit", "timeout"), "the deadline may come while it is asked once more"
    assert len(cloud.asked(LAUNCH)) > 6


def test_a_server_that_is_not_there_was_not_asked_for_anything(cloud: CloudPlace) -> None:
    ended = cloud.run(cloud.job(), base_url="http://127.0.0.1:1")
    assert ended.kind == "outage"
    assert "did not say whether" not in ended.message
    assert KEY not in str(ended.items)


def test_usage_is_no_condition(cloud: CloudPlace) -> None:
    cloud.desk.breaks("internal", "GET /v1/agents/*/usage", times=0)
    ended = cloud.run(cloud.job())
    assert ended.outcome.failure is None
    assert ended.outcome.usage is None
    assert ended.of(AgentUsage) == []


def test_cancelling_is_tried_again_after_an_internal_error(cloud: CloudPlace) -> None:
    cloud.desk.plays(faults=["hang"])
    cloud.desk.breaks("internal", CANCEL, times=2)
    assert cloud.run(cloud.job(wall=5.0)).facts["status"] == "CANCELLED"


@pytest.mark.parametrize(
    "options",
    [
        {"base_url": "http://api.cursor.com"},
        {"base_url": "https://user:secret@api.cursor.com"},
        {"base_url": "api.cursor.com"},
        {"base_url": "https://"},
        {"repository": "/srv/app.git"},
        {"api_version": "v2"},
        {"poll_interval": 0},
        {"api_key": "crsr_x"},
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        read_options(CursorCloudOptions, options)


def test_it_is_called_cursor_cloud() -> None:
    assert registry.load("agents", "cursor-cloud") is CursorCloudAgent
    options = CursorCloudOptions(repository="git@github.com:o/r.git", base_url="https://api.cursor.com/")
    assert (options.repository, options.base_url) == ("https://github.com/o/r", "https://api.cursor.com")
