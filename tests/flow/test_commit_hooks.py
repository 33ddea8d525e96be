"""Tests of the repository's own hooks: a check before a commit, as they were before the task."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from segue.domain.errors import NeedsHuman, Unfinished
from segue.domain.events import CheckRun
from segue.domain.job import Job
from segue.domain.outcome import Outcome
from segue.flow.context import Policy
from tests.flow.loop import FunctionAgent, ListSource, Loop, edit

CONVENTIONAL = """#!/bin/sh
grep -qE '^(feat|fix|chore|docs|test)(\\(.+\\))?: .+' "$1" || { echo 'subject may not be empty' >&2; exit 1; }
"""


def loop(
    tmp_path: Path, behave: Callable[[Job], Outcome] | None = None, *keys: str, **options: object
) -> Loop:
    run = Loop(
        tmp_path, ListSource(*(keys or ("1",))), [FunctionAgent("worker", behave or edit())], hooks=True
    )
    for name, value in options.items():
        setattr(run, name, value)
    return run


def script(path: Path, text: str, mode: int = 0o755) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if text.startswith("#!") else f"#!/bin/sh\n{text}\n")
    path.chmod(mode)


def hook(run: Loop, text: str, name: str = "pre-commit", mode: int = 0o755) -> None:
    script(run.repo / ".git" / "hooks" / name, text, mode)


def commit_all(run: Loop, message: str = "Prepare") -> None:
    run.git("add", "--all")
    run.git("commit", "--quiet", "--no-verify", "-m", message)


def writes(*contents: str, name: str = "work.txt") -> Callable[[Job], Outcome]:
    """An agent that writes one content after the other, in launch after launch."""
    rest = list(contents)

    def behave(job: Job) -> Outcome:
        (job.workspace / name).write_text(rest.pop(0) if len(rest) > 1 else rest[0])
        return Outcome("Done.")

    return behave


def checks(run: Loop) -> list[CheckRun]:
    return [one.event for one in run.events if isinstance(one.event, CheckRun)]


def launches(run: Loop) -> int:
    return len(run.agents[0].jobs)


def message(run: Loop) -> str:
    return run.git("log", "-1", "--format=%B")


@pytest.mark.parametrize("means", ["auto", "copy"])
def test_what_a_hook_complains_about_goes_back_to_the_agent(tmp_path: Path, means: str) -> None:
    run = loop(tmp_path, writes("bad", "good"), means=means)
    hook(run, "! grep -sq bad work.txt || { echo work.txt is bad >&2; exit 3; }")
    run.session()
    assert launches(run) == 2
    prompt = run.agents[0].jobs[1].prompt.text
    assert "the pre-commit hook failed" in prompt
    assert "work.txt is bad" in prompt
    assert run.git("show", "HEAD:work.txt") == "good"
    assert run.git("rev-list", "--count", "HEAD") == "2"


def test_no_hook_runs_outside(tmp_path: Path) -> None:
    run = loop(tmp_path)
    for name in ("pre-commit", "commit-msg", "prepare-commit-msg", "post-commit"):
        hook(run, f"touch {tmp_path}/outside 2>/dev/null; exit 0", name)
    run.session()
    assert not (tmp_path / "outside").exists()
    assert run.git("show", "HEAD:work.txt") == "1"


def test_a_hook_that_formats_and_adds(tmp_path: Path) -> None:
    """As lint-staged does."""
    run = loop(tmp_path, writes("  text\n"))
    hook(run, "for f in $(git diff --cached --name-only); do sed -i 's/^ *//' $f; git add $f; done")
    run.session()
    assert launches(run) == 1
    assert run.git("show", "HEAD:work.txt") == "text"
    assert run.git("status", "--porcelain") == ""


def test_a_hook_that_formats_and_fails_is_run_once_more(tmp_path: Path) -> None:
    """As the tool pre-commit does."""
    run = loop(tmp_path, writes("  text\n"))
    hook(run, "sed -i 's/^ *//' work.txt; git diff --quiet || { echo files were modified; exit 1; }")
    run.session()
    assert launches(run) == 1
    assert [one.exit_code for one in checks(run)] == [0]
    assert run.git("show", "HEAD:work.txt") == "text"


def test_a_hook_never_writes_through_a_link(tmp_path: Path) -> None:
    def behave(job: Job) -> Outcome:
        (job.workspace / "folder").symlink_to(tmp_path)
        (job.workspace / "work.txt").write_text("1")
        return Outcome("Done.")

    run = loop(tmp_path, behave)
    hook(run, "rm folder; mkdir folder; echo x > folder/stolen; git add folder/stolen")
    run.session()
    assert not (tmp_path / "stolen").exists()


def test_a_message_is_put_as_the_hook_wants_it(tmp_path: Path) -> None:
    run = loop(tmp_path)
    hook(run, CONVENTIONAL, "commit-msg")
    run.session()
    assert message(run).startswith("feat: title 1")
    assert "Segue-Task: 1" in message(run)


def test_a_hook_that_needs_the_network_says_what_to_set(tmp_path: Path) -> None:
    run = loop(tmp_path)
    program = "import urllib.request; urllib.request.urlopen('http://example.com')"
    hook(run, f'python3 -c "{program}"')
    with pytest.raises(Unfinished, match=r"pre-commit hook cannot run in the sandbox.*network") as caught:
        run.session()
    assert "check_network" in (caught.value.hint or "")
    assert "git.hooks" in (caught.value.hint or "")
    assert launches(run) == 1


def test_a_task_about_hooks_is_judged_by_the_old_ones(tmp_path: Path) -> None:
    def behave(job: Job) -> Outcome:
        if job.labels["task"] == "1":
            script(job.workspace / ".githooks" / "pre-commit", "echo new hook; grep -q two work.txt")
            (job.workspace / "work.txt").write_text("one")
        else:
            (job.workspace / "work.txt").write_text("two")
        return Outcome("Done.")

    run = loop(tmp_path, behave, "1", "2")
    script(run.repo / ".githooks" / "pre-commit", "echo old hook")
    commit_all(run)
    run.git("config", "core.hooksPath", ".githooks")
    run.session()
    assert [one.output.strip() for one in checks(run)] == ["old hook", "new hook"]
    assert "new hook" in run.git("show", "HEAD:.githooks/pre-commit")


def _change_git_hook(repo: Path) -> None:
    script(repo / ".git" / "hooks" / "pre-commit", "exit 0")


def _change_settings(repo: Path) -> None:
    (repo / ".pre-commit-config.yaml").write_text("repos: []\n")


@pytest.mark.parametrize("cheat", [_change_git_hook, _change_settings])
def test_an_agent_has_no_say_in_the_hook_that_judges_it(
    tmp_path: Path, cheat: Callable[[Path], None]
) -> None:
    def behave(job: Job) -> Outcome:
        cheat(job.workspace)
        (job.workspace / "work.txt").write_text("bad")
        return Outcome("Done.")

    run = loop(tmp_path, behave, policy=Policy(resolutions=0))
    script(run.repo / "scripts" / "lint.sh", "grep -q lint .pre-commit-config.yaml && ! grep bad work.txt")
    (run.repo / ".pre-commit-config.yaml").write_text("repos: [lint]\n")
    commit_all(run)
    hook(run, ". scripts/lint.sh")
    with pytest.raises(NeedsHuman, match="the pre-commit hook failed"):
        run.session()
