"""Runs that end as a pull request: one per run, with the proof, on a branch of its own, despite kills."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tests.cli.hosted import PROJECT, WORK, Hosted, host, make_origin
from tests.cli.place import Place, until
from tests.fakes.github import Github
from tests.fakes.serving import serve

PLAN = "# Plan\n\n## Task 1\nWrite one.\n\n## Task 2\nWrite two.\n"
STUCK = f'[[on]]\ntask = "2"\nexit_code = 1\n{WORK}'


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place.make(tmp_path, plan=PLAN)


@pytest.fixture
def hosted(place: Place) -> Iterator[Hosted]:
    with host(place) as made:
        yield made


def stop_at_two(hosted: Hosted) -> None:
    """Run until the second task needs a person; it works when it is resumed."""
    hosted.settings("", script=STUCK)
    hosted.place.segue("run", "plan.md", "--pr", code=3)
    (hosted.place.root / "script.toml").write_text(WORK)


def test_a_run_becomes_one_pull_request(hosted: Hosted) -> None:
    place = hosted.place
    before = place.git("rev-parse", "HEAD").strip()
    done = place.segue("run", "plan.md", "--pr", "--json")
    (pull,) = hosted.pulls()
    run = place.last_run()
    assert pull["head"]["ref"] == f"segue/{run}"
    assert pull["draft"] is False
    assert [one["name"] for one in pull["labels"]] == ["proof: changed"]
    assert "changed, not verified" in pull["body"]
    assert "Write one." in pull["title"] or "Task 1" in pull["title"]
    assert hosted.git("rev-parse", f"segue/{run}") == place.git("rev-parse", f"segue/{run}").strip()
    assert hosted.git("rev-parse", "main") == before == place.git("rev-parse", "HEAD").strip()
    assert place.git("status", "--porcelain") == ""
    (event,) = place.events("work.delivered")
    assert (event["number"], event["url"]) == (1, pull["html_url"])
    assert event["url"] in json.loads(done.stdout.splitlines()[-1])["worktree"]["words"]
    assert place.json("status", "last")["delivery"]["url"] == event["url"]


def test_a_draft_until_it_is_done_keeps_what_people_write(hosted: Hosted) -> None:
    place = hosted.place
    stop_at_two(hosted)
    (pull,) = hosted.pulls()
    assert pull["draft"] is True
    assert [one["name"] for one in pull["labels"]] == ["proof: incomplete"]
    assert "needs a human" in pull["body"].replace("\\", "")
    hosted.ask("PATCH", "/pulls/1", {"body": f"Please look at f1 first.\n\n{pull['body']}\n\nThank you."})
    place.segue("resume")
    (pull,) = hosted.pulls()
    assert pull["draft"] is False
    assert [one["name"] for one in pull["labels"]] == ["proof: changed"]
    assert "needs a human" not in pull["body"].replace("\\", "")
    assert pull["body"].startswith("Please look at f1 first.")
    assert pull["body"].endswith("Thank you.")
    assert pull["body"].count("segue:run=") == 1


def test_what_is_missing_is_found_before_anything_starts(hosted: Hosted) -> None:
    place = hosted.place
    said = place.segue("run", "plan.md", "--pr", code=4, GITHUB_TOKEN="").stderr
    assert "There is no token" in said
    assert "GITHUB_TOKEN" in said
    hosted.fail({"status": 401, "body": {"message": "Bad credentials"}}, {"status": 404})
    assert "rejects the token" in place.segue("run", "plan.md", "--pr", code=4).stderr
    assert "may not see it" in place.segue("run", "plan.md", "--pr", code=4).stderr
    said = place.segue("run", "plan.md", "--pr", "--base", "nowhere", code=2).stderr
    assert "Branch nowhere does not exist on origin" in said
    assert "commit" in place.segue("run", "plan.md", "--pr", "--commit", "never", code=2).stderr
    place.git("remote", "remove", "origin")
    assert "no remote called origin" in place.segue("run", "plan.md", "--pr", code=2).stderr
    assert place.json("status") == []
    assert hosted.pulls() == []


def test_commits_that_others_pushed_are_never_overwritten(hosted: Hosted) -> None:
    place = hosted.place
    stop_at_two(hosted)
    branch = f"segue/{place.last_run()}"
    place.git("fetch", "--quiet", "origin", branch)
    other = place.git("commit-tree", "FETCH_HEAD^{tree}", "-p", "FETCH_HEAD", "-m", "theirs").strip()
    place.git("push", "--quiet", "origin", f"{other}:refs/heads/{branch}")
    assert "Somebody else has pushed" in place.segue("resume", code=3).stderr
    assert hosted.git("rev-parse", branch) == other


def test_a_changed_remote_gets_nothing(hosted: Hosted, tmp_path: Path) -> None:
    place = hosted.place
    other = tmp_path / "other.git"
    place.git("init", "--quiet", "--bare", str(other))
    config = place.repo / ".git" / "config"
    hosted.settings("", script=f'{WORK}run = [["git", "config", "remote.origin.url", "{other}"]]\n')
    place.segue("run", "plan.md", "--pr", code=None)
    assert str(other) not in config.read_text(), "it is put back"
    assert not list((other / "refs" / "heads").iterdir())
    assert hosted.pulls() == []


def test_a_branch_is_pushed_with_options_for_the_server(place: Place) -> None:
    origin = make_origin(place)
    place.script(WORK)
    given = "push_options = ['merge_request.create', 'merge_request.target=main']"
    old = (place.root / "segue.toml").read_text()
    place.config(f'delivery = "branch"\n{old}[deliveries.branch]\n{given}\n')
    place.git("--git-dir", str(origin), "config", "receive.advertisePushOptions", "true")
    hook = origin / "hooks" / "post-receive"
    hook.write_text('#!/bin/sh\necho "$GIT_PUSH_OPTION_0 $GIT_PUSH_OPTION_1" > options\n')
    hook.chmod(0o755)
    assert "which is pushed" in place.segue("run", "plan.md").stdout
    assert (origin / "options").read_text() == "merge_request.create merge_request.target=main\n"
    branch = f"segue/{place.last_run()}"
    assert place.git("rev-parse", branch) == place.git("--git-dir", str(origin), "rev-parse", branch)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_kill_between_push_and_record_makes_no_second_one(place: Place, moment: str) -> None:
    """Killed when the branch is pushed and the request not yet opened, or opened and not yet recorded."""
    origin = make_origin(place)
    hub = Github({"repos": {PROJECT: {"bare": str(origin)}}})
    gate = Held(hub.app, moment)
    with serve(gate) as url:
        hosted = Hosted(place, origin, hub, url)
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


class Held:
    """Holds the request that opens a pull request: before it is served, or before it is answered."""

    def __init__(self, app: ASGIApp, moment: str) -> None:
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
