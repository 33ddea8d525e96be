"""Runs that end as a pull request: one per run, with the proof, on a branch of its own, despite kills."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from segue.parts.sim.github.app import github_app
from segue.parts.trackers.gitlab_sim.app import gitlab_app
from segue.system.http.guard import AsgiApp, Message, Receive, Scope, Send
from segue.system.http.server import start_server
from tests.cli.hosted import PROJECT, WORK, Hosted, make_origin
from tests.cli.place import Place, until


@pytest.fixture(params=["github", "gitlab"])
def hosted(place: Place, request: pytest.FixtureRequest) -> Iterator[Hosted]:
    """The place, on each service."""
    origin = make_origin(place)
    make = github_app if request.param == "github" else gitlab_app
    url, stop = start_server(make(None, {PROJECT: origin}))
    made = Hosted(place, origin, request.param, url)
    yield made
    made.http.close()
    stop()


def body_of(pull: dict[str, Any]) -> str:
    return pull.get("body") or pull.get("description") or ""


def head_of(pull: dict[str, Any]) -> str:
    return str(pull["source_branch"] if "source_branch" in pull else pull["head"]["ref"])


def labels_of(pull: dict[str, Any]) -> list[str]:
    return [one["name"] if isinstance(one, dict) else one for one in pull["labels"]]


def stop_at_two(hosted: Hosted) -> None:
    """Run until the second task needs a person; it works when it is resumed."""
    hosted.settings("", script=f'[[on]]\ntask = "2"\nexit_code = 1\n{WORK}')
    hosted.place.segue("run", "plan.md", "--pr", code=3)
    (hosted.place.root / "script.toml").write_text(WORK)


@pytest.mark.quick("github")
def test_a_run_becomes_one_pull_request(hosted: Hosted) -> None:
    place = hosted.place
    before = place.git("rev-parse", "HEAD")
    done = place.segue("run", "plan.md", "--pr")
    (pull,) = hosted.pulls()
    run = place.last_run()
    assert head_of(pull) == f"segue/{run}"
    assert pull["draft"] is False
    assert labels_of(pull) == ["proof: changed"]
    assert "changed, not verified" in body_of(pull)
    assert "Write one." in pull["title"] or "Task 1" in pull["title"]
    assert (pull.get("html_url") or pull["web_url"]) in done.stdout + done.stderr
    assert hosted.git("rev-parse", f"segue/{run}") == place.git("rev-parse", f"segue/{run}").strip()
    assert hosted.git("rev-parse", "main") == before.strip() == place.git("rev-parse", "HEAD").strip()
    assert place.git("status", "--porcelain") == ""


@pytest.mark.thorough
def test_work_that_needs_a_person_is_a_draft_until_it_is_done(hosted: Hosted) -> None:
    place = hosted.place
    stop_at_two(hosted)
    (pull,) = hosted.pulls()
    assert pull["draft"] is True
    assert labels_of(pull) == ["proof: incomplete"]
    assert "needs a human" in body_of(pull).replace("\\", "")
    place.segue("resume")
    (pull,) = hosted.pulls()
    assert pull["draft"] is False
    assert not pull["title"].startswith("Draft")
    assert labels_of(pull) == ["proof: changed"]
    assert "needs a human" not in body_of(pull).replace("\\", "")


@pytest.mark.thorough
def test_what_people_write_into_it_stays(hosted: Hosted) -> None:
    place = hosted.place
    stop_at_two(hosted)
    (pull,) = hosted.pulls()
    hosted.edit(pull, f"Please look at f1 first.\n\n{body_of(pull)}\n\nThank you.")
    place.segue("resume")
    (pull,) = hosted.pulls()
    assert body_of(pull).startswith("Please look at f1 first.")
    assert body_of(pull).rstrip().endswith("Thank you.")
    assert body_of(pull).count("segue:run=") == 1


@pytest.mark.thorough
@pytest.mark.parametrize("fault", ["reset_after", "bad_gateway"])
def test_an_answer_that_is_lost_makes_no_second_one(hosted: Hosted, fault: str) -> None:
    post = "POST /repos/*/*/pulls" if hosted.service == "github" else "POST /projects/*/merge_requests"
    hosted.fail({"fault": fault, "on": post})
    hosted.place.segue("run", "plan.md", "--pr")
    assert len(hosted.pulls()) == 1


@pytest.mark.quick("github")
def test_what_is_missing_is_found_before_anything_starts(hosted: Hosted) -> None:
    place = hosted.place
    token = "GITHUB_TOKEN" if hosted.service == "github" else "GITLAB_TOKEN"
    said = place.segue("run", "plan.md", "--pr", code=4, **{token: ""}).stderr
    assert "There is no token" in said
    assert token in said
    hosted.fail({"fault": "unauthorized", "times": 1})
    assert "rejects the token" in place.segue("run", "plan.md", "--pr", code=4).stderr
    hosted.fail({"fault": "not_found", "times": 1})
    assert "may not see it" in place.segue("run", "plan.md", "--pr", code=4).stderr
    hook = hosted.origin / "objects"
    hook.chmod(0o500)
    place.git("remote", "set-url", "origin", f"{hosted.origin}-gone")
    assert "cannot be pushed" in (said := place.segue("run", "plan.md", "--pr", code=2).stderr) or (
        "git" in said
    )
    hook.chmod(0o700)
    place.git("remote", "remove", "origin")
    assert "no remote called origin" in place.segue("run", "plan.md", "--pr", code=2).stderr
    assert place.json("status") == []
    assert hosted.pulls() == []


@pytest.mark.quick("gitlab")
def test_settings_that_cannot_work_are_refused(hosted: Hosted) -> None:
    place = hosted.place
    assert "commit" in place.segue("run", "plan.md", "--pr", "--commit", "never", code=2).stderr
    assert "worktree_end" in place.segue("run", "plan.md", "--pr", code=2, SEGUE_WORKTREE_END="merge").stderr
    assert (
        "There is no delivery 'pigeon'"
        in place.segue("run", "plan.md", code=2, SEGUE_DELIVERY="pigeon").stderr
    )
    said = place.segue("run", "plan.md", "--pr", "--base", "nowhere", code=2).stderr
    assert "Branch nowhere does not exist on origin" in said


@pytest.mark.thorough
@pytest.mark.quick("gitlab")
def test_commits_that_others_pushed_are_never_overwritten(hosted: Hosted) -> None:
    place = hosted.place
    stop_at_two(hosted)
    branch = f"segue/{place.last_run()}"
    place.git("fetch", "--quiet", "origin", branch)
    other = place.git("commit-tree", "FETCH_HEAD^{tree}", "-p", "FETCH_HEAD", "-m", "theirs").strip()
    place.git("push", "--quiet", "origin", f"{other}:refs/heads/{branch}")
    said = place.segue("resume", code=3).stderr
    assert "Somebody else has pushed" in said
    assert hosted.git("rev-parse", branch) == other


@pytest.mark.thorough
def test_a_changed_remote_gets_nothing(hosted: Hosted, tmp_path: Path) -> None:
    place = hosted.place
    other = tmp_path / "other.git"
    place.git("init", "--quiet", "--bare", str(other))
    config = place.repo / ".git" / "config"
    hosted.settings(
        "",
        script=f'{WORK}run = [["git", "config", "remote.origin.url", "{other}"]]\n',
    )
    place.segue("run", "plan.md", "--pr", code=None)
    assert str(other) not in config.read_text(), "it is put back"
    assert not list((other / "refs" / "heads").iterdir())
    assert hosted.pulls() == []


@pytest.mark.thorough
def test_the_record_for_programs_names_the_pull_request(hosted: Hosted) -> None:
    done = hosted.place.segue("run", "plan.md", "--pr", "--json")
    last = json.loads(done.stdout.splitlines()[-1])
    (event,) = hosted.place.events("work.delivered")
    assert event["number"] == 1
    assert event["url"] in last["worktree"]["words"]
    assert hosted.place.json("status", "last")["delivery"]["url"] == event["url"]


@pytest.mark.thorough
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_kill_between_push_and_record_makes_no_second_one(
    place: Place, moment: str, request: pytest.FixtureRequest
) -> None:
    """Killed when the branch is pushed and the request not yet opened, or opened and not yet recorded."""
    origin = make_origin(place)
    gate = Gate(github_app(None, {PROJECT: origin}), moment)
    url, stop = start_server(gate)
    request.addfinalizer(stop)
    hosted = Hosted(place, origin, "github", url)
    request.addfinalizer(hosted.http.close)
    process = place.start("run", "plan.md", "--pr")
    until(gate.reached.is_set, "the pull request is about to be opened")
    process.kill()
    process.wait()
    gate.closed = False
    gate.go.set()
    branch = f"segue/{place.last_run()}"
    assert hosted.git("rev-parse", branch) == place.git("rev-parse", branch).strip()
    assert len(hosted.pulls()) == (1 if moment == "after" else 0)
    place.segue("resume")
    assert len(hosted.pulls()) == 1
    assert len(place.events("work.delivered")) == 1


class Gate:
    """Holds the request that opens a pull request: before it is served, or before it is answered."""

    def __init__(self, app: AsgiApp, moment: str) -> None:
        self._app, self._moment = app, moment
        self.reached, self.go = threading.Event(), threading.Event()
        self.closed = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        opens = scope.get("method") == "POST" and scope.get("path", "").endswith("/pulls")
        if not (opens and self.closed):
            await self._app(scope, receive, send)
            return
        if self._moment == "before":
            await self._hold()
            return

        async def hold(message: Message) -> None:
            await self._hold()
            await send(message)

        await self._app(scope, receive, hold)

    async def _hold(self) -> None:
        self.reached.set()
        await asyncio.to_thread(self.go.wait)
