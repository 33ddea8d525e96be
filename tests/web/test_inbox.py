"""The inbox over HTTP and in a browser: what waits in all repositories, and what is done about it there."""

from __future__ import annotations

import shutil

from msgspec.structs import replace

from segue.domain.run import RunState
from tests.cli.hosted import host
from tests.cli.place import Place
from tests.web.place import SPEC, Served, make_run, serving
from tests.web.test_server import FAILS_ONCE, HOSTILE


def test_everything_that_waits_is_listed_across_repositories(place: Place, served: Served) -> None:
    assert "Nothing waits for you." in served.get("/inbox").text
    place.script(FAILS_ONCE.replace("I claim", "<b>I</b> claim"))
    place.segue("run", "plan.md", code=3)
    other = place.root / "other"
    shutil.copytree(place.repo, other)
    spec = replace(SPEC, repo=str(other), titles={}, source=HOSTILE)
    make_run(place.database, spec=spec, state=RunState.DONE)
    make_run(place.database, spec=spec, state=RunState.FAILED)
    make_run(place.database, spec=replace(spec, source="replaced"), state=RunState.FAILED)
    make_run(place.database, spec=replace(spec, source="replaced"), state=RunState.STOPPED)
    found = served.data("/inbox")
    assert [(item["kind"], item["run"]["repo_name"]) for item in found["items"]] == [
        ("task", "repo"),
        ("run", "other"),
    ]
    assert found["waiting"] == served.data("/inbox/count")["waiting"] == 2
    assert found["items"][0]["task"]["key"] == "2"
    assert found["items"][0]["since"] > 0
    page = served.get("/inbox").text
    assert "<script>alert" not in page
    assert 'id="waiting">2<' in page
    assert 'id="waiting">2<' in served.get("/runs").text, "the menu of every page says so"
    assert "No pull request: the run works in your own work tree" in page
    only = served.data(f"/inbox?repo={other}")
    assert [item["run"]["repo_name"] for item in only["items"]] == ["other"]
    assert served.data("/inbox?kind=plan")["items"] == []
    run = found["items"][0]["run"]["id"]
    diff = served.data(f"/runs/{run}/tasks/1/diff")
    assert [file["path"] for file in diff["diff"]["files"]] == ["f1"]
    assert served.data(f"/runs/{run}/tasks/2/diff")["diff"] is None
    assert served.get(f"/runs/{run}/tasks/9/diff").status_code == 404


def test_finished_work_on_a_branch_becomes_a_pull_request(place: Place, served: Served) -> None:
    with host(place) as hosted:
        place.segue("run", "plan.md", "--worktree")
        run = place.last_run()
        (item,) = served.data("/inbox")["information"]
        assert (item["kind"], item["no_pull_request"], item["pull_request"]) == ("delivery", "", None)
        refused = served.post(f"/runs/{run}/propose")
        assert refused.status_code == 400, "this page was started without a token"
        assert "token" in refused.json()["error"]["message"].lower()
        assert hosted.pulls() == []
        with serving(place) as able:
            answer = able.post(f"/runs/{run}/propose")
            assert answer.status_code == 200, answer.text
            (pull,) = hosted.pulls()
            assert pull["draft"] is False
            assert pull["html_url"] in answer.json()["data"]["said"]
            (item,) = able.data("/inbox")["information"]
            assert item["pull_request"]["url"] == pull["html_url"]
            assert able.post(f"/runs/{run}/propose").status_code == 200
            assert len(hosted.pulls()) == 1
        assert place.git("worktree", "list").count("\n") == 1
