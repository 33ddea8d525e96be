"""Tests of the repository's own hooks: a check before a commit, as they were before the task."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from segue.domain.errors import NeedsHuman, Unfinished
from segue.domain.events import CheckRun, NoticeGiven
from segue.domain.job import Job
from segue.domain.outcome import Outcome
from segue.flow.context import Policy
from tests.flow.loop import FunctionAgent, ListSource, Loop, edit

HUSKY = """#!/usr/bin/env sh
[ "$HUSKY" = "2" ] && set -x
n=$(basename "$0")
s=$(dirname "$(dirname "$0")")/$n
[ ! -f "$s" ] && exit 0
export PATH="node_modules/.bin:$PATH"
sh -e "$s" "$@"
c=$?
[ $c != 0 ] && echo "husky - $n script failed (code $c)"
exit $c
"""
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


def notices(run: Loop) -> str:
    return "\n".join(one.event.text for one in run.events if isinstance(one.event, NoticeGiven))


def launches(run: Loop) -> int:
    return len(run.agents[0].jobs)


def message(run: Loop) -> str:
    return run.git("log", "-1", "--format=%B")


@pytest.mark.thorough
def test_a_hook_that_passes_is_a_check_like_others(tmp_path: Path) -> None:
    run = loop(tmp_path)
    hook(run, "echo looked")
    run.session()
    assert [(one.command, one.exit_code, one.output.strip()) for one in checks(run)] == [
        ("pre-commit hook", 0, "looked")
    ]
    proof = run.view.tasks["1"].proof
    assert proof is not None
    assert [one.command for one in proof.checks] == ["pre-commit hook"]
    assert run.git("show", "HEAD:work.txt") == "1"


@pytest.mark.quick("auto")
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


@pytest.mark.thorough
def test_a_hook_that_keeps_failing_ends_the_task(tmp_path: Path) -> None:
    run = loop(tmp_path, writes("bad"), policy=Policy(resolutions=1))
    hook(run, "! grep -sq bad work.txt || { echo never content; exit 1; }")
    with pytest.raises(NeedsHuman, match="the pre-commit hook failed"):
        run.session()
    assert launches(run) == 2
    assert run.git("rev-list", "--count", "HEAD") == "1"


@pytest.mark.quick("policy0")
@pytest.mark.parametrize("policy", [Policy(), Policy(commit="phase")])
def test_no_hook_runs_outside(tmp_path: Path, policy: Policy) -> None:
    run = loop(tmp_path, policy=policy)
    for name in ("pre-commit", "commit-msg", "prepare-commit-msg", "post-commit"):
        hook(run, f"touch {tmp_path}/outside 2>/dev/null; exit 0", name)
    run.session()
    assert not (tmp_path / "outside").exists()
    assert run.git("show", "HEAD:work.txt") == "1"


def test_husky(tmp_path: Path) -> None:
    run = loop(tmp_path, writes("bad", "good"))
    script(run.repo / ".husky" / "pre-commit", "tool work.txt")
    commit_all(run)
    (run.repo / ".husky" / "_").mkdir()
    (run.repo / ".husky" / "_" / ".gitignore").write_text("*")
    script(run.repo / ".husky" / "_" / "h", HUSKY)
    script(run.repo / ".husky" / "_" / "pre-commit", '#!/usr/bin/env sh\n. "$(dirname "$0")/h"')
    (run.repo / ".git" / "info" / "exclude").write_text("node_modules\n")
    tool = run.repo / "node_modules" / ".bin" / "tool"
    script(tool, "! grep -s bad $1 || { echo tool complains; exit 1; }")
    run.git("config", "core.hooksPath", ".husky/_")
    run.session()
    assert launches(run) == 2
    assert "tool complains" in run.agents[0].jobs[1].prompt.text


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_only_what_still_fails_after_formatting_goes_back(tmp_path: Path) -> None:
    run = loop(tmp_path, writes("  bad\n", "  good\n"))
    hook(run, "[ ! -f work.txt ] || sed -i 's/^ *//' work.txt; git diff --quiet && ! grep -s bad work.txt")
    run.session()
    assert launches(run) == 2
    assert run.git("show", "HEAD:work.txt") == "good"


@pytest.mark.thorough
def test_a_hook_that_counts_up_counts_once_for_a_commit(tmp_path: Path) -> None:
    run = loop(tmp_path)
    (run.repo / "version").write_text("1\n")
    commit_all(run)
    hook(run, "echo $(($(cat version) + 1)) > version; git add version")
    run.session()
    assert run.git("show", "HEAD:version") == "2"


@pytest.mark.thorough
def test_files_that_a_hook_adds_are_committed_and_others_are_not(tmp_path: Path) -> None:
    run = loop(tmp_path)
    hook(run, "mkdir -p made; echo x > made/added; git add made/added; echo y > made/cache")
    run.session()
    assert run.git("show", "--name-only", "--format=", "HEAD").split() == ["made/added", "work.txt"]
    assert not (run.repo / "made" / "cache").exists()


@pytest.mark.thorough
def test_what_a_hook_formats_is_checked_before_it_is_committed(tmp_path: Path) -> None:
    run = loop(tmp_path, checks=(("test", "!", "-f", "broken"),), policy=Policy(resolutions=0))
    hook(run, "touch broken; git add broken")
    with pytest.raises(NeedsHuman, match="checks failed"):
        run.session()
    assert run.git("rev-list", "--count", "HEAD") == "1"


@pytest.mark.thorough
def test_a_hook_never_writes_through_a_link(tmp_path: Path) -> None:
    def behave(job: Job) -> Outcome:
        (job.workspace / "folder").symlink_to(tmp_path)
        (job.workspace / "work.txt").write_text("1")
        return Outcome("Done.")

    run = loop(tmp_path, behave)
    hook(run, "rm folder; mkdir folder; echo x > folder/stolen; git add folder/stolen")
    run.session()
    assert not (tmp_path / "stolen").exists()


@pytest.mark.thorough
def test_lefthook(tmp_path: Path) -> None:
    run = loop(tmp_path, writes("bad", "good"))
    (run.repo / "lefthook.yml").write_text("pre-commit: {commands: {lint: {run: '! grep bad work.txt'}}}\n")
    (run.repo / ".gitignore").write_text("node_modules\n")
    commit_all(run)
    fake = "grep -q 'grep bad' lefthook.yml && [ $1 = run ] && ! grep -s bad work.txt"
    script(run.repo / "node_modules" / ".bin" / "lefthook", fake)
    hook(run, 'dir="$(git rev-parse --show-toplevel)"\n"$dir/node_modules/.bin/lefthook" run pre-commit "$@"')
    run.session()
    assert launches(run) == 2


def test_a_message_is_put_as_the_hook_wants_it(tmp_path: Path) -> None:
    run = loop(tmp_path)
    hook(run, CONVENTIONAL, "commit-msg")
    run.session()
    assert message(run).startswith("feat: title 1")
    assert "Segue-Task: 1" in message(run)


@pytest.mark.thorough
def test_a_message_that_is_refused_waits_for_a_person(tmp_path: Path) -> None:
    run = loop(tmp_path)
    hook(run, "grep -q ABC-1 $1 || { echo name a ticket >&2; exit 1; }", "commit-msg")
    with pytest.raises(Unfinished, match="name a ticket"):
        run.session()
    assert (run.repo / "work.txt").read_text() == "1\n"
    (run.repo / ".git" / "hooks" / "commit-msg").unlink()
    run.session()
    assert launches(run) == 1
    assert run.git("show", "HEAD:work.txt") == "1"


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["prepare-commit-msg", "commit-msg"])
def test_what_a_hook_adds_to_a_message_is_committed(tmp_path: Path, name: str) -> None:
    run = loop(tmp_path)
    hook(run, 'echo "Change-Id: I123" >> "$1"', name)
    run.session()
    assert "Change-Id: I123" in message(run)
    assert message(run).count("Segue-Step: ") == 1
    assert "Segue-Step: 0000" not in message(run)


@pytest.mark.thorough
def test_a_message_that_a_hook_replaces_keeps_its_mark(tmp_path: Path) -> None:
    run = loop(tmp_path)
    hook(run, 'echo "Something else" > "$1"', "commit-msg")
    run.session()
    assert message(run).startswith("Something else\n\nSegue-Step: ")


@pytest.mark.thorough
def test_a_hook_sees_what_the_task_changed(tmp_path: Path) -> None:
    run = loop(tmp_path)
    (run.repo / "old").write_text("old")
    commit_all(run)
    hook(run, "git diff --cached --name-only; git status --porcelain; git log -1 --format=%s; git branch")
    run.session()
    assert checks(run)[0].output.split("\n")[:4] == ["work.txt", "A  work.txt", "Prepare", "* main"]


def test_a_hook_that_needs_the_network_says_what_to_set(tmp_path: Path) -> None:
    run = loop(tmp_path)
    program = "import urllib.request; urllib.request.urlopen('http://example.com')"
    hook(run, f'python3 -c "{program}"')
    with pytest.raises(Unfinished, match=r"pre-commit hook cannot run in the sandbox.*network") as caught:
        run.session()
    assert "check_network" in (caught.value.hint or "")
    assert "git.hooks" in (caught.value.hint or "")
    assert launches(run) == 1


@pytest.mark.thorough
def test_a_hook_that_lacks_a_program_says_so(tmp_path: Path) -> None:
    run = loop(tmp_path)
    hook(run, "no-such-linter --fix")
    with pytest.raises(Unfinished, match=r"cannot run in the sandbox.*no-such-linter"):
        run.session()
    assert launches(run) == 1


@pytest.mark.thorough
def test_a_hook_that_takes_too_long_waits_for_a_person(tmp_path: Path) -> None:
    run = loop(tmp_path, timeout=1.0)
    hook(run, "sleep 60")
    with pytest.raises(Unfinished, match="check_timeout"):
        run.session()


@pytest.mark.thorough
def test_a_hook_that_failed_before_is_named_once(tmp_path: Path) -> None:
    run = loop(tmp_path, None, "1", "2")
    (run.repo / "old").write_text("red")
    commit_all(run)
    hook(run, "! grep red old")
    run.session()
    assert launches(run) == 2
    assert notices(run).count("failed before the task as well") == 1


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


def test_hooks_that_git_ignores_are_ignored(tmp_path: Path) -> None:
    run = loop(tmp_path)
    hook(run, "exit 1", mode=0o644)
    hook(run, "exit 1", "pre-commit.sample")
    run.session()
    assert checks(run) == []


@pytest.mark.thorough
def test_a_hook_that_is_a_link_to_a_script(tmp_path: Path) -> None:
    run = loop(tmp_path, writes("bad", "good"))
    script(run.repo / "scripts" / "pre-commit", 'cd "$(dirname "$0")/../.." && ! grep -s bad work.txt')
    commit_all(run)
    (run.repo / ".git" / "hooks" / "pre-commit").symlink_to("../../scripts/pre-commit")
    run.session()
    assert launches(run) == 2


@pytest.mark.thorough
def test_a_hook_without_a_first_line(tmp_path: Path) -> None:
    """As Git for Windows runs them, with its own shell."""
    run = loop(tmp_path)
    path = run.repo / ".git" / "hooks" / "pre-commit"
    path.write_text("echo plain\n")
    path.chmod(0o755)
    run.session()
    assert [one.output.strip() for one in checks(run)] == ["plain"]


@pytest.mark.thorough
def test_hooks_of_the_user_for_all_repositories(tmp_path: Path) -> None:
    run = loop(tmp_path)
    script(tmp_path / "my-hooks" / "pre-commit", '. "$(dirname "$0")/lib.sh"; say')
    (tmp_path / "my-hooks" / "lib.sh").write_text("say() { echo mine; }\n")
    run.git("config", "core.hooksPath", str(tmp_path / "my-hooks"))
    run.session()
    assert [one.output.strip() for one in checks(run)] == ["mine"]


def _change_git_hook(repo: Path) -> None:
    script(repo / ".git" / "hooks" / "pre-commit", "exit 0")


def _delete_hook(repo: Path) -> None:
    (repo / ".git" / "hooks" / "pre-commit").unlink()
    (repo / "scripts" / "lint.sh").unlink()


def _change_script(repo: Path) -> None:
    script(repo / "scripts" / "lint.sh", "exit 0")


def _change_settings(repo: Path) -> None:
    (repo / ".pre-commit-config.yaml").write_text("repos: []\n")


@pytest.mark.quick("_change_git_hook", "_change_settings")
@pytest.mark.parametrize("cheat", [_change_git_hook, _delete_hook, _change_script, _change_settings])
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


@pytest.mark.thorough
def test_hooks_are_as_they_were_for_the_next_session_too(tmp_path: Path) -> None:
    run = loop(tmp_path, writes("bad", "good"), policy=Policy(resolutions=0))
    hook(run, "! grep -s bad work.txt")
    with pytest.raises(NeedsHuman):
        run.session()
    run.source.reopen("1")
    run.session()
    assert run.git("show", "HEAD:work.txt") == "good"


def test_no_hook_runs_where_the_settings_leave_them_out(tmp_path: Path) -> None:
    run = loop(tmp_path, hooks=False)
    hook(run, "exit 1")
    run.session()
    assert run.git("show", "HEAD:work.txt") == "1"
    assert checks(run) == []


@pytest.mark.thorough
def test_a_repository_without_commits_has_hooks_too(tmp_path: Path) -> None:
    run = loop(tmp_path)
    for path in (run.repo / ".git").glob("refs/heads/*"):
        path.unlink()
    hook(run, "git diff --cached --name-only")
    run.session()
    assert [one.output.strip() for one in checks(run)] == ["work.txt"]
