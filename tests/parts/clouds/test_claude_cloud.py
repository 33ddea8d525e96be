"""What only Claude's sessions do: idle before the message, stop reasons, repository errors, budgets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from segue.domain.events import AgentText, WaitBegan, WaitEnded
from segue.domain.job import Limits
from tests.parts.clouds.place import VENDORS, SessionPlace, open_session_place
from tests.parts.sim.cloud_desk import REPO

[CLAUDE] = [vendor for vendor in VENDORS if vendor.name == "claude-cloud"]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[SessionPlace]:
    with open_session_place(CLAUDE, tmp_path) as found:
        yield found


def test_a_launch_has_everything_that_anthropic_needs(
    place: SessionPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_GIT_TOKEN", "ghp_0123456789")
    options: dict[str, Any] = {"agent_version": 3, "max_cost_usd": 2.5, "vault_ids": ["vlt_1"]}
    job = place.job(labels={"run": "0123456789", "task": "7", "phase": "execute"})
    ended = place.run(job, repository_token_env="MY_GIT_TOKEN", **options)
    [launch] = place.asked("POST /v1/sessions")
    body = launch["body"]
    assert body["agent"] == {"type": "agent", "id": "agent_1", "version": 3}
    assert body["budget"] == {"type": "limit", "max_list_cost": {"amount": "250", "currency": "USD"}}
    assert body["resources"] == [
        {
            "type": "github_repository",
            "url": REPO,
            "authorization_token": "ghp_0123456789",
            "checkout": {"type": "branch", "name": "main"},
        }
    ]
    assert body["metadata"]["segue_launch"] == f"segue-{job.token[:24]}"
    assert body["title"].startswith("Segue 01234567: task 7, execute")
    assert "initial_events" not in body, "it must not work before its id is saved"
    assert (ended.outcome.usage, ended.facts["status"]) != (None, None)
    assert ended.outcome.usage is not None
    assert (ended.outcome.usage.input_tokens, ended.outcome.usage.cost_usd) == (1060, 0.12)


@pytest.mark.quick("entry1-refused-refused to answer", "entry7-crash-Broken")
@pytest.mark.parametrize(
    ("entry", "kind", "words"),
    [
        ({"end": "requires_action"}, "refused", "confirmation"),
        ({"end": "refusal"}, "refused", "refused to answer"),
        ({"end": "budget_reached"}, "usage_limit", "max_cost_usd"),
        (
            {"end": "retries_exhausted", "error": "billing_error Out of credits"},
            "usage_limit",
            "Out of credits",
        ),
        ({"end": "retries_exhausted", "error": "model_overloaded_error Busy"}, "outage", "Busy"),
        ({"end": "retries_exhausted", "error": "model_rate_limited_error Slow"}, "rate_limit", "Slow"),
        ({"end": "terminated", "error": "compaction_limit_reached_error Full"}, "context", "Full"),
        ({"end": "terminated", "error": "unknown_error Broken"}, "crash", "Broken"),
        ({"error": "repository_clone_error No access", "delay": 30}, "not_started", "No access"),
    ],
)
def test_how_a_session_ends(place: SessionPlace, entry: dict[str, Any], kind: str, words: str) -> None:
    place.plays(**entry)
    ended = place.run(place.job())
    assert (ended.kind, words in ended.message) == (kind, True), ended.message
    assert place.state()["active"] == 0, "a session without its repository is stopped"


def test_an_idle_session_has_not_worked_yet(place: SessionPlace) -> None:
    # The message is lost on its way for a while: the session stays idle, as new ones are.
    place.breaks("refuse", "POST /v1/sessions/*/events", status=503, times=2)
    ended = place.run(place.job())
    assert ended.kind is None, ended.message
    assert ended.said == "Done: turn 1."


@pytest.mark.parametrize("fault", ["lost", "failed"])
def test_a_message_is_sent_once(place: SessionPlace, fault: str) -> None:
    place.breaks(fault, "POST /v1/sessions/*/events")
    ended = place.run(place.job())
    assert (ended.kind, ended.said) == (None, "Done: turn 1.")


def test_a_broken_stream_costs_no_event(place: SessionPlace) -> None:
    place.breaks("refuse", "GET /v1/sessions/*/events/stream", status=503, times=0)
    place.plays(say="All of it.", delay=0.2)
    assert place.run(place.job()).said == "All of it."
    place.breaks("refuse", "GET /v1/sessions/*", status=503, times=2)
    place.plays(say="Again.", delay=0.2)
    ended = place.run(place.job(), stream=False)
    assert [event.text for event in ended.of(AgentText)] == ["Again."]


def test_what_is_not_set_is_said_before_the_start(place: SessionPlace) -> None:
    ended = place.run(place.job(), agent_id="")
    assert (ended.kind, ended.message) == ("not_started", "agents.claude-cloud.agent_id is not set.")
    ended = place.run(place.job(), repository_token_env="NOT_THERE")
    assert ended.message == "NOT_THERE is not set."
    assert place.state()["sessions"] == 0


def test_without_a_clone_the_hosted_repository_is_asked(
    place: SessionPlace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for bare, verified in ((place.bare, True), (tmp_path / "nowhere", False)):
        monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
        monkeypatch.setenv("GIT_CONFIG_KEY_0", f"url.{bare}.insteadOf")
        monkeypatch.setenv("GIT_CONFIG_VALUE_0", REPO)
        job = place.job(workspace=elsewhere)
        ended = place.run(job)
        assert ended.outcome.branches == (f"segue/{job.token[:12]}",)
        assert ended.facts["verified"] is verified


@pytest.mark.thorough
def test_an_api_that_is_away_is_waited_for(place: SessionPlace) -> None:
    place.breaks("refuse", "POST /v1/sessions", status=503, times=4)
    ended = place.run(place.job(limits=Limits(wall=50, patience=50)))
    assert ended.kind is None, ended.message
    assert (len(ended.of(WaitBegan)), len(ended.of(WaitEnded))) == (1, 1)
    assert place.state()["sessions"] == 1
