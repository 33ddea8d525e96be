"""Seed 001: an agent without keys prints commands, and the bridge runs them."""

from __future__ import annotations

from tests.parts.bridge.conftest import APP, HOME, Bridge

DELEGATE = "SUBAGENT: repo=github.com/me/app, prompt=Add a health check endpoint"


def test_subagent_example_in_a_fence_is_a_command(bridge: Bridge) -> None:
    bridge.replies(f"I delegate this:\n\n```\n{DELEGATE}\n```\n", "Done.")
    bridge.run("go")
    assert bridge.repos() == [HOME, APP]


def test_subagent_prompt_is_passed_as_prompt_text(bridge: Bridge) -> None:
    bridge.configure(prompt_text="raw")
    works = {"prompt": "^Add a health check endpoint$", "say": "I did it.", "write": {"health.txt": "ok"}}
    bridge.replies(DELEGATE, "Done.", works=works)
    bridge.run("go")
    assert bridge.launches()[1]["prompt"]["text"] == "Add a health check endpoint"


def test_remind_does_not_keep_the_answer_of_an_old_message(bridge: Bridge) -> None:
    bridge.replies("REMIND: in 300m, look again", "The first answer.")
    bridge.run("go")
    bridge.replies("The second answer.")
    assert "The second answer." in bridge.run("go").stdout
