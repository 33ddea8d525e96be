"""Flags and settings that decide about phases, kinds of runs and sources: each one works or is refused."""

from __future__ import annotations

import json

import pytest

from tests.cli.place import Place


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--flow", "execute", "--judge", "checks"], "the flow execute has no phase `verify`"),
        (["--agent", "verify=scripted"], "no phase of the flow execute uses this role"),
        (["--agent", "plan=scripted"], "no phase of the flow execute uses this role"),
        (["--agent", "address=scripted"], "no phase of the flow execute uses this role"),
        (["--flow", "build"], "it replans, but no agent has planned the tasks of this source"),
        (["--flow", "nonsense"], "There is no flow 'nonsense'"),
        (["--source", "nonsense"], "There is no source 'nonsense'"),
        (["--judge", "nonsense"], "There is no judge 'nonsense'"),
        (["--review", "nonsense"], "There is no reviewer 'nonsense'"),
    ],
)
def test_what_has_no_effect_is_refused_before_anything_starts(
    place: Place, arguments: list[str], reason: str
) -> None:
    done = place.segue("run", "plan.md", "--agent", "scripted", *arguments, code=2)
    assert reason in done.stderr
    assert "Next: " in done.stderr
    assert place.subjects() == []


def phases(place: Place, *arguments: str) -> list[str]:
    """The phases that the first task went through, in order."""
    place.segue("run", "plan.md", "--task", "1", *arguments)
    rows = place.rows("SELECT phase FROM orchestrator_steps WHERE task = '1' ORDER BY seq")
    return [phase for (phase,) in rows if phase not in ("base", "commit", "end")]


@pytest.mark.thorough
def test_a_reviewer_adds_its_phase_to_a_flow_without_one(place: Place) -> None:
    place.config(
        'agent = "scripted"\nflows.short.phases = ["plan", "execute"]\n'
        """reviewers.command = { argv = ["echo", '{{"runs": []}}'], format = "sarif" }\n"""
    )
    assert phases(place, "--flow", "short", "--review", "command") == ["plan", "execute", "review"]


@pytest.mark.thorough
def test_checks_add_their_phase_and_send_the_agent_back(place: Place) -> None:
    place.script('[[on]]\nphase = "resolve"\nwrite = { good = "x" }\n[[on]]\nwrite = { bad = "x" }\n')
    # It passes before the task: what is red already is not blamed on it.
    check = """checks = [["sh", "-c", "! ls | grep -q ^b || ls | grep -q ^g"]]\n"""
    place.more_config(f'{check}flow = "short"\nflows.short.phases = ["execute"]\n')
    assert phases(place) == ["execute", "check", "resolve", "check"]
    checked = place.rows("SELECT state FROM orchestrator_steps WHERE phase = 'check' ORDER BY seq")
    assert [state for (state,) in checked] == ["failed", "done"]


@pytest.mark.thorough
def test_a_judge_adds_verification_when_no_flow_is_chosen(place: Place) -> None:
    place.config('agent = "scripted"\nchecks = ["true"]\n')
    assert phases(place, "--judge", "checks") == ["execute", "check", "verify"]


def test_a_flow_of_the_users_own_is_stored_with_its_run(place: Place) -> None:
    place.script('[[on]]\ntask = "1"\nattempt = 1\nsay = "I claim to be done."\n')
    place.more_config('flows.mine.phases = ["plan", "execute"]\n')
    place.segue("run", "plan.md", "--flow", "mine", "--task", "1", code=3)
    place.script("")
    place.segue("resume")
    rows = place.rows("SELECT DISTINCT phase FROM orchestrator_steps WHERE task = '1'")
    assert {"plan", "execute"} <= {phase for (phase,) in rows}
    assert place.json("status", "last")["flow"] == "mine"


@pytest.mark.thorough
def test_last_means_the_newest_run_that_works_on_tasks(place: Place) -> None:
    place.script("")
    place.segue("run", "plan.md", "--task", "1")
    (run,) = place.json("status")
    place.segue("bridge", "run", "Hello", "--agent", "scripted", "--new")
    (talk,) = place.json("bridge", "list")
    assert talk["id"] != run["id"]
    assert [listed["id"] for listed in place.json("status")] == [run["id"]]
    assert place.json("status", "last")["id"] == run["id"]
    events = place.segue("logs", "last", "--json").stdout.splitlines()
    assert {json.loads(line)["run"] for line in events} == {run["id"]}
    assert place.json("report", "run", "last")["report"] == "run"
    assert "Nothing to resume" in place.segue("resume").stdout
    assert "Nothing to stop" in place.segue("stop").stdout
    assert f"Run {run['id']}: done" in place.segue("resume", "last").stdout


def test_plugins_are_listed_with_their_package(place: Place) -> None:
    listed = place.json("plugins")
    assert {(plugin["socket"], plugin["name"]) for plugin in listed} >= {
        ("agents", "scripted"),
        ("sources", "planfile"),
        ("notifiers", "webhook"),
    }
    assert {plugin["package"] for plugin in listed} == {"segue"}
    assert not any(plugin["problem"] for plugin in listed)
    assert "segue.sources.prompt:PromptSource" in place.segue("plugins").stdout


def test_schemas_describe_every_event_and_output(place: Place) -> None:
    schemas = json.loads(place.segue("db", "schema").stdout)
    events = {variant["properties"]["type"]["const"] for variant in schemas["events"]["oneOf"]}
    assert {"run.started", "agent.tool", "trace.span"} <= events
    assert "until" in schemas["events"]["$defs"]["RunParked"]["properties"]
    assert json.loads(place.segue("db", "schema", "outputs").stdout) == schemas["outputs"]
    assert {"$ref": "#/$defs/EndOutput"} in schemas["outputs"]["anyOf"]


@pytest.mark.parametrize(
    ("toml", "environ", "said"),
    [
        ("", {"SEGUE_AGENTS__CURSOR_CLOUD__BASE_ULR": "http://127.0.0.1:1"},
         "agents.cursor-cloud.base_ulr: is not an option; did you mean agents.cursor-cloud.base_url? (from "
         "SEGUE_AGENTS__CURSOR_CLOUD__BASE_ULR)"),
        ("[agents.claude]\nnonsense = 1\n", {}, "agents.claude.nonsense: is not an option (from "),
        ('[acp.mine]\nargv = ["x"]\n[agents.mine]\npas_env = []\n', {}, "did you mean agents.mine.pass_env?"),
        ("[reviewers.ruff]\nargs = 1\n", {}, "is not an option; did you mean reviewers.ruff.argv?"),
        ("[sources.planfile]\nx = 1\n", {}, "sources.planfile.x: is not an option"),
        ("", {"SEGUE_JUDGES__LMM__MODEL": "x"}, "judges.lmm: there is no judge of this name; did you mean"),
        ("[judges.llm]\nmodel = 'x'\n", {}, "judges.llm: the options of llm belong in [judge]"),
        ("[notifiers.slak]\nx = 1\n", {}, "notifiers.slak: there is no notifier of this name"),
        ("", {"SEGUE_ROLES__PLAN": "cladue:opus"}, "Did you mean 'claude'? (roles.plan, from SEGUE_"),
        ('bridge.allow_agents = ["codxe"]\n', {}, "Did you mean 'codex'? (bridge.allow_agents, from "),
    ],
)  # fmt: skip
def test_a_name_that_nobody_knows_is_refused_even_where_this_run_does_not_use_it(
    place: Place, toml: str, environ: dict[str, str], said: str
) -> None:
    place.config(f'agent = "scripted"\n{toml}')
    place.env |= environ
    done = place.segue("run", "plan.md", code=2)
    assert said in done.stderr
    assert place.subjects() == []


def test_variables_keep_the_case_of_tasks_and_of_other_variables(place: Place) -> None:
    environ = {"SEGUE_KINDS__T012": "docs", "SEGUE_AGENTS__COMMAND__ENV__TZ": "UTC"}
    place.env |= environ
    shown = {row["setting"] for row in place.json("config", "list")}
    assert {"kinds.T012", "agents.command.env.TZ"} <= shown
