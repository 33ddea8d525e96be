"""Seed 001: an agent without keys prints commands, and the bridge runs them.

The document's sections, in order: 1 overview, 2 command format (2.1 SUBAGENT, 2.2 LOCAL_ACTION), 3 parsing
rules (rule 1 to 5), 4 optional commands (4.1 REMIND, 4.2 WEBHOOK_RESULT), 5 security.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.place import Place
from tests.features.bridge.conftest import APP, HOME, Bridge, open_bridge
from tests.features.bridge.test_local import LocalBridge

HEALTH = 'Add a health check endpoint at GET /health that returns 200 and {"status":"ok"}'
DELEGATE = f"SUBAGENT: repo=github.com/me/app, prompt={HEALTH}"
REPLY = f"""I delegate this, and not SUBAGENT: repo=github.com/me/app, prompt=within a line.
{DELEGATE}
  SubAgent: repo=github.com/me/app, prompt=indented and not in capitals
SUBAGENT: REPO =  https://github.com/me/app , Prompt =  keys in any case, values trimmed\x20
SUBAGENT: repo=github.com/me/app
SUBAGENT: prompt=Nobody knows where
SUBAGENT: repo=github.com/somebody/else, prompt=Read all secrets
LOCAL_ACTION:
"""


@pytest.fixture(scope="module")
def talked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bridge]:
    """A conversation in which the agent printed commands of every kind."""
    with open_bridge(Place.make(tmp_path_factory.mktemp("talked"))) as bridge:
        bridge.replies(REPLY, "Done.")
        bridge.run("go")
        yield bridge


def test_section_2_keys_may_have_any_case_and_values_are_trimmed(talked: Bridge) -> None:
    assert any("keys in any case, values trimmed\n" in body["prompt"]["text"] for body in talked.launches())


def test_section_2_1_subagent_is_launched_on_the_other_repository(talked: Bridge) -> None:
    assert talked.repos() == [HOME, APP, APP]


def test_section_2_1_subagent_gets_the_prompt(talked: Bridge) -> None:
    assert sum(HEALTH in body["prompt"]["text"] for body in talked.launches()) == 1


def test_section_2_1_subagent_prompt_is_passed_as_prompt_text(bridge: Bridge) -> None:
    bridge.configure(prompt_text="raw")
    works = {"prompt": "^Add a health check endpoint$", "say": "I did it.", "write": {"health.txt": "ok"}}
    bridge.replies(
        "SUBAGENT: repo=github.com/me/app, prompt=Add a health check endpoint", "Done.", works=works
    )
    bridge.run("go")
    assert bridge.launches()[1]["prompt"]["text"] == "Add a health check endpoint"


def test_section_2_1_subagent_example_in_a_fence_is_a_command(bridge: Bridge) -> None:
    bridge.replies(f"I delegate this:\n\n```\n{DELEGATE}\n```\n", "Done.")
    bridge.run("go")
    assert bridge.repos() == [HOME, APP]


def test_section_2_2_local_action_runs_what_the_relay_allows(relay: LocalBridge) -> None:
    relay.replies("LOCAL_ACTION: backup, where=home\nLOCAL_ACTION:   broken  \nLOCAL_ACTION: unknown")
    relay.run()
    told = relay.asked()[1]
    assert "status=done, action=backup" in told
    assert "status=failed, action=broken" in told, "rule 3: the action's id is trimmed"
    assert "status=refused, action=unknown" in told, "section 5: only what is on the list"
    assert (relay.root / "ran").read_text() == "x"


def test_rule_1_only_the_start_of_a_line_counts(talked: Bridge) -> None:
    assert not any("within a line" in body["prompt"]["text"] for body in talked.launches())


def test_rule_2_a_malformed_line_is_skipped_and_named(talked: Bridge) -> None:
    (told,) = talked.follow_ups()
    assert "status=skipped, line=5, reason=prompt is missing" in told
    assert "status=skipped, line=6, reason=repo is missing" in told


def test_rule_3_an_empty_action_is_skipped(talked: Bridge) -> None:
    assert "status=skipped, line=8, reason=the action is missing" in talked.follow_ups()[0]


def test_rule_4_every_command_is_executed(talked: Bridge) -> None:
    assert talked.follow_ups()[0].count("status=done") == 2


def test_rule_5_the_agent_is_told_when_subagents_end(talked: Bridge) -> None:
    (told,) = talked.follow_ups()
    ids = [body["agentId"] for body in talked.launches()][1:]
    assert all(f"WEBHOOK_RESULT: agent_id={one}, status=done" in told for one in ids)


def test_section_4_1_remind_does_not_keep_the_answer_of_an_old_message(bridge: Bridge) -> None:
    bridge.replies("REMIND: in 300m, look again", "The first answer.")
    bridge.run("go")
    bridge.replies("The second answer.")
    assert "The second answer." in bridge.run("go").stdout


def test_section_4_2_webhook_result_is_confirmed_or_summed_up(bridge: Bridge) -> None:
    bridge.replies(DELEGATE, "WEBHOOK_RESULT: agent_id=1.1, status=done", "Done.")
    bridge.run("go")
    assert bridge.last()["state"] == "done"


def test_section_5_a_repository_that_is_not_on_the_list_is_refused(talked: Bridge) -> None:
    assert "https://github.com/somebody/else is not on the allow-list" in talked.follow_ups()[0]
    assert "https://github.com/somebody/else" not in talked.repos()
