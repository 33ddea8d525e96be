"""Done is a claim: empty diffs, usage limits behind exit code 0, hangs, crashes and caps."""

from __future__ import annotations

import json

from tests.cli.place import Place


def test_a_claim_without_a_change_is_not_done(place: Place) -> None:
    place.script('[[on]]\ntask = "2"\nsay = "All done!"\n')
    done = place.segue("run", "plan.md", code=3)
    assert "nothing" in done.stderr
    assert place.json("status", place.last_run())["state"] == "needs_human"
    assert json.loads(place.state_file().read_text())["completed_task_indices"] == [1, 3]


def test_tasks_that_change_nothing_pass_when_allowed(place: Place) -> None:
    place.script('[[on]]\nsay = "Nothing to do."\n')
    place.segue("run", "plan.md", "--allow-no-change")
    assert place.subjects() == []


def test_a_usage_limit_behind_exit_code_zero_is_no_success(place: Place) -> None:
    place.script(
        '[[on]]\nwrite = { "half" = "work" }\nlimit = "You\'ve hit your usage limit."\nexit_code = 0\n'
    )
    done = place.segue("run", "plan.md", code=3)
    assert "usage limit" in done.stderr.lower()
    assert place.subjects() == []
    assert (place.repo / "half").exists()


def test_a_usage_limit_with_a_reset_time_parks_and_goes_on(place: Place) -> None:
    place.script(
        '[[on]]\ntask = "1"\nattempt = 1\nlimit = "You\'ve hit your usage limit. Try again in 1 second."\n'
        '[[on]]\nwrite = { "f{task}" = "x" }\n'
    )
    place.segue("run", "plan.md")
    assert len(place.subjects()) == 3
    assert place.rows("select count(*) from orchestrator_events where type = 'run.parked'") == [(1,)]


def test_a_silent_agent_is_ended_by_the_idle_limit(place: Place) -> None:
    place.script("[[on]]\nhang = true\n")
    place.segue("run", "plan.md", code=3, SEGUE_LIMITS__IDLE_TIMEOUT="1", SEGUE_LIMITS__KILL_GRACE="0.2")
    (row,) = place.rows("select output from orchestrator_steps where phase = 'execute'")
    assert json.loads(row[0])["failure"]["kind"] == "hang"


def test_a_second_attempt_is_told_what_was_missing(place: Place) -> None:
    place.script('[[on]]\nattempt = 1\nexit_code = 7\n[[on]]\nwrite = { "f{task}" = "x" }\n')
    place.segue("run", "plan.md", "--task", "1", SEGUE_LIMITS__ATTEMPTS="2")
    data = place.json("status", place.last_run())
    assert data["tasks"][0]["attempts"] == 2
    prompts = [text for (text,) in place.rows("select text from orchestrator_prompts order by length(text)")]
    assert "exit code 7" in prompts[-1]


def test_the_cost_cap_holds(place: Place) -> None:
    place.script('[[on]]\nwrite = { "f{task}" = "x" }\nusage = { cost_usd = 0.6 }\n')
    done = place.segue("run", "plan.md", code=3, SEGUE_LIMITS__COST_USD="1")
    assert "limits.cost_usd" in done.stderr
    assert len(place.subjects()) == 2


def test_a_cap_that_cannot_be_enforced_is_refused(place: Place) -> None:
    place.config('agent = "command"\n[agents.command]\nargv = ["true"]\n[limits]\ntokens = 1000\n')
    done = place.segue("run", "plan.md", code=2)
    assert "limits.tokens" in done.stderr


def test_the_time_limit_of_the_run(place: Place) -> None:
    place.script("[[on]]\nhang = true\n")
    place.segue("run", "plan.md", code=124, SEGUE_LIMITS__RUN_TIMEOUT="1", SEGUE_LIMITS__KILL_GRACE="0.2")
    assert place.json("status", place.last_run())["state"] == "stopped"


def test_secrets_of_the_environment_reach_neither_agent_nor_store(place: Place) -> None:
    secret = "sk-test-0123456789abcdef"
    place.config('agent = "command"\n[agents.command]\nargv = ["./agent.sh"]\npass_env = ["MY_API_KEY"]\n')
    agent = place.repo / "agent.sh"
    agent.write_text(
        '#!/bin/sh\ncat > /dev/null\necho "key=$MY_API_KEY other=$OTHER_TOKEN"\necho x > "f$SEGUE_TASK"\n'
    )
    agent.chmod(0o755)
    place.git("add", "--all")
    place.git("commit", "--quiet", "-m", "agent")
    done = place.segue("run", "plan.md", "-v", MY_API_KEY=secret, OTHER_TOKEN="tok-abcdefgh12345")
    assert "key=[redacted] other=" in done.stderr
    stored = b"".join(path.read_bytes() for path in place.database.parent.rglob("*") if path.is_file())
    assert secret.encode() not in stored
    assert b"tok-abcdefgh12345" not in stored
