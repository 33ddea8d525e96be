"""The page of a run and the list of runs: findings in sight, search, filters in the address."""

from __future__ import annotations

from msgspec.structs import replace

from segue.domain.events import NOT_ISOLATED, RunStarted
from segue.domain.run import RunState
from tests.cli.place import Place
from tests.web.place import SPEC, Served, make_run

UNUSED = '[[on]]\nphase = "execute"\nwrite = { "code.py" = "import os\\nx = 1\\n" }\n'


def test_the_sandbox_of_the_agents_is_on_the_page_of_run_and_task(place: Place, served: Served) -> None:
    place.script(UNUSED)
    place.segue("run", "plan.md", "--task", "1", SEGUE_ISOLATION="none")
    exposed = place.last_run()
    label = served.data(f"/runs/{exposed}")["run"]["isolation"]
    assert label == NOT_ISOLATED == place.json("status", exposed)["isolation"]
    for page in (f"/runs/{exposed}", f"/runs/{exposed}/tasks/1"):
        assert f'<dt>sandbox</dt><dd><span class="badge bad"><span aria-hidden="true">!</span> {label}' in (
            served.get(page).text
        )
    isolated = RunStarted("plan.md", "/srv", "claude", "execute", isolation="bwrap standard")
    run = make_run(place.database, [isolated]).id
    assert "<dt>sandbox</dt><dd>bwrap standard</dd>" in served.get(f"/runs/{run}").text


def test_what_was_red_before_is_said_on_top(place: Place, served: Served) -> None:
    place.script(UNUSED)
    place.more_config('checks = [["test", "-d", "nowhere"]]\n')
    place.segue("run", "plan.md", "--task", "1")
    run = place.last_run()
    [check] = served.data(f"/runs/{run}")["before"]
    assert (check["state"], check["words"]) == ("red", "`test -d nowhere` fails already")
    assert "`test -d nowhere` fails already" in served.get(f"/runs/{run}").text


def test_runs_are_searched_and_filtered_by_the_address(place: Place, served: Served) -> None:
    for name in ("one", "two_%"):
        spec = replace(SPEC, repo=f"/srv/{name}", source=f"{name}.md", agent=f"agent-{name}")
        make_run(place.database, spec=spec, state=RunState.FAILED)
    make_run(place.database, spec=replace(SPEC, repo="/srv/one", source="other.md"))

    def found(query: str) -> list[str]:
        return [run["source"] for run in served.data(f"/runs?{query}")["runs"]]

    assert found("") == ["other.md", "two_%.md", "one.md"]
    assert found("q=ONE.MD") == ["one.md"]
    assert found("q=_%25") == ["two_%.md"], "signs of a pattern are text"
    assert found("q=agent-one&state=failed") == ["one.md"]
    assert found("repo=/srv/one") == ["other.md", "one.md"]
    assert found("repo=/srv/one&state=failed") == ["one.md"]
    assert found("q=nowhere") == []
    page = served.get("/runs?repo=/srv/one&q=one").text
    assert '<option value="/srv/one" selected>' in page
    for run in served.data("/runs")["runs"]:
        assert run["id"] in served.get("/runs").text
