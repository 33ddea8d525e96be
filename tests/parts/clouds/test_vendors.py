"""What only one vendor does: Devin's tags and credit, Jules' sources and patches, Copilot's branches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.parts.clouds.place import VENDORS, SessionPlace, open_session_place

BY_NAME = {vendor.name: vendor for vendor in VENDORS}


@contextmanager
def at(name: str, folder: Path) -> Iterator[SessionPlace]:
    with open_session_place(BY_NAME[name], folder) as place:
        yield place


ENDS: dict[str, list[tuple[dict[str, Any], str | None, str]]] = {
    "devin": [
        ({"end": "suspended/out_of_credits"}, "usage_limit", "out_of_credits"),
        ({"end": "suspended/payment_declined"}, "usage_limit", "payment_declined"),
        ({"end": "suspended/inactivity"}, "no_result", "asleep"),
        ({"end": "suspended/user_request"}, "unknown", "user_request"),
        ({"end": "running/waiting_for_user"}, "no_result", "waiting_for_user"),
        ({"end": "error"}, "crash", "not why"),
        ({"end": "exit"}, None, ""),
    ],
    "jules": [
        ({"end": "FAILED", "error": "Out of memory"}, "crash", "Out of memory"),
        ({"end": "FAILED", "error": "Daily quota exceeded."}, "usage_limit", "quota"),
        ({"end": "AWAITING_USER_FEEDBACK"}, "no_result", "waits for a person"),
        ({"end": "AWAITING_PLAN_APPROVAL"}, "no_result", "waits for a person"),
        ({"pull": False}, "branch", "no pull request"),
    ],
    "copilot-cloud": [
        ({"end": "timed_out"}, "timeout", "59 minutes"),
        ({"end": "failed", "error": "The machine died"}, "crash", "The machine died"),
        ({"end": "cancelled"}, "unknown", "someone else"),
        ({"end": "waiting_for_user"}, "no_result", "waits for a person"),
        ({"end": "idle"}, None, ""),
    ],
}


@pytest.mark.quick("jules")
@pytest.mark.parametrize("name", ENDS)
def test_how_a_session_ends(name: str, tmp_path: Path) -> None:
    with at(name, tmp_path) as place:
        for entry, kind, words in ENDS[name]:
            place.plays(**entry, times=1)
            ended = place.run(place.job())
            assert (entry, ended.kind, words in ended.message) == (entry, kind, True), ended.message


def test_devin_is_told_where_to_start_and_what_it_may_spend(tmp_path: Path) -> None:
    with at("devin", tmp_path) as place:
        job = place.job()
        ended = place.run(job, max_acu_limit=7)
        [launch] = place.asked(place.vendor.launch)
        assert launch["body"]["tags"] == [f"segue-{job.token[:24]}"]
        assert (launch["body"]["repos"], launch["body"]["max_acu_limit"]) == (["Me/App"], 7)
        assert "Start from branch `main`." in launch["body"]["prompt"]
        assert (ended.facts["acus"], ended.outcome.usage) == (1.5, None)


def test_a_branch_of_devins_own_is_found_by_its_pull_request(tmp_path: Path) -> None:
    with at("devin", tmp_path) as place:
        place.plays(branch="devin/own-idea")
        ended = place.run(place.job())
        assert ended.outcome.branches == ("devin/own-idea",)
        assert ended.facts["pull_requests"] == ["https://github.com/Me/App/pull/1"]
        again = place.run(place.job("More", session=ended.outcome.session))
        assert again.outcome.branches == ("devin/own-idea",)
        path = f"{place.vendor.launch}/{again.facts['agent_id']}/messages"
        assert "`devin/own-idea`" in place.asked(path)[0]["body"]["message"]


def test_jules_repeats_a_launch_that_could_not_get_its_source(tmp_path: Path) -> None:
    with at("jules", tmp_path) as place:
        place.breaks("refuse", place.vendor.launch, status=400, message="Could not get source", times=2)
        job = place.job()
        ended = place.run(job)
        assert (ended.kind, place.state()["sessions"]) == (None, 1)
        body = place.asked(place.vendor.launch)[2]["body"]
        assert body["sourceContext"] == {
            "source": "sources/github/Me/App",
            "githubRepoContext": {"startingBranch": "main"},
        }
        assert (body["requirePlanApproval"], body["automationMode"]) == (False, "AUTO_CREATE_PR")
        assert f"segue-{job.token[:24]}" in body["title"]
        refused = place.run(place.job(), repository="https://github.com/me/other")
        assert (refused.kind, "connect it at" in refused.message) == ("not_started", True)
        elsewhere = place.run(place.job(), repository="https://gitlab.com/me/app")
        assert (elsewhere.kind, "not on GitHub" in elsewhere.message) == ("not_started", True)


@pytest.mark.thorough
def test_what_cannot_be_stopped_is_left_with_its_page(tmp_path: Path) -> None:
    with at("jules", tmp_path) as place:
        place.plays(hold=True)
        ended = place.run(place.job(wall=5.0))
        assert ended.kind == "timeout"
        assert "cannot be stopped from here: https://jules.google.com/session/" in ended.message
        assert place.state()["active"] == 1


def test_a_task_of_copilot_works_on_our_branch(tmp_path: Path) -> None:
    with at("copilot-cloud", tmp_path) as place:
        place.plays(pull=True)
        job = place.job(model="claude-sonnet-5")
        ended = place.run(job, create_pull_request=True)
        [launch] = place.asked(place.vendor.launch)
        branch = f"segue/{job.token[:12]}"
        assert launch["body"] == {
            **{"prompt": launch["body"]["prompt"], "model": "claude-sonnet-5"},
            **{"create_pull_request": True, "base_ref": "main", "head_ref": branch},
        }
        assert ended.outcome.branches == (branch,)
        assert (ended.facts["ai_credits"], ended.facts["pull_request_ids"]) == (1.5, [9_000_001])
        refused = place.run(place.job(base="nowhere"))
        assert (refused.kind, "no branch nowhere" in refused.message) == ("not_started", True)


def test_the_token_of_an_installation_is_refused_before_the_start(tmp_path: Path) -> None:
    with at("copilot-cloud", tmp_path) as place, pytest.MonkeyPatch.context() as patch:
        patch.setenv("GH_TOKEN", "ghs_0123456789")
        ended = place.run(place.job())
        assert (ended.kind, "installation" in ended.message) == ("not_started", True)
        assert place.state()["sessions"] == 0


def test_a_model_that_nobody_takes_is_refused(tmp_path: Path) -> None:
    with at("devin", tmp_path) as place:
        ended = place.run(place.job(model="opus"))
        assert (ended.kind, place.state()["sessions"]) == ("not_started", 0)
