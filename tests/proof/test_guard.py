"""What an agent must not do to a repository: found after the launch, undone where nothing is lost by it."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from segue.domain.errors import WorkspaceError
from segue.domain.outcome import FailureKind
from segue.domain.task import Notice, Task, TaskKind, TaskList, TaskStatus
from segue.domain.workspace import Snapshot
from segue.proof.contract import Contract, ContractFile
from segue.proof.guard import LaunchGuard, settle_settings
from segue.system.git.branches import RemoteBranches
from segue.system.git.guard import GitGuard
from segue.system.git.repository import Repository


def git(place: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=place, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    place = tmp_path / "repo"
    place.mkdir()
    git(place, "init", "--quiet", "--initial-branch=main")
    git(place, "config", "user.name", "Somebody")
    git(place, "config", "user.email", "somebody@example.org")
    for number in (1, 2):
        (place / f"{number}.txt").write_text("one\n")
        git(place, "add", ".")
        git(place, "commit", "--quiet", "-m", f"Commit {number}")
    return place


def guard_of(repo: Path, kept: Path) -> GitGuard:
    return GitGuard(Repository(repo, repo / ".git"), repo / ".git", kept)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


Deed = Callable[[Path], object]
FATAL: dict[str, tuple[str, Deed]] = {
    "reset": ("history", lambda repo: git(repo, "reset", "--quiet", "--hard", "HEAD~1")),
    "textconv": (
        "git configuration",
        lambda repo: git(repo, "config", "diff.fake.textconv", "cat /dev/null"),
    ),
    "fsmonitor": ("git configuration", lambda repo: git(repo, "config", "core.fsmonitor", "/tmp/x")),
    "include": ("git configuration", lambda repo: git(repo, "config", "include.path", "/nonexistent/x")),
    "hook": ("git hooks", lambda repo: write(repo / ".git/hooks/pre-commit", "#!/bin/sh\nexit 0\n")),
    "exclude": ("git configuration", lambda repo: write(repo / ".git/info/exclude", "*.py\n")),
    "attributes": ("git configuration", lambda repo: write(repo / ".git/info/attributes", "* -diff\n")),
    "assume unchanged": (
        "hidden files",
        lambda repo: git(repo, "update-index", "--assume-unchanged", "1.txt"),
    ),
    "skip worktree": ("hidden files", lambda repo: git(repo, "update-index", "--skip-worktree", "1.txt")),
    "assume unchanged, dated back": ("hidden files", lambda repo: _forge_index(repo)),
    "replace": ("refs", lambda repo: git(repo, "replace", "HEAD", "HEAD~1")),
    "merge": ("history", lambda repo: _leave_a_merge(repo)),
}
DROPPED: dict[str, Deed] = {
    "reset": lambda repo: git(repo, "reset", "--quiet", "--hard", "HEAD~1"),
    "rebase": lambda repo: git(repo, "rebase", "--quiet", "--onto", "HEAD~2", "HEAD~1"),
    "orphan": lambda repo: git(repo, "reset", "--quiet", "--hard", _empty_commit(repo)),
}
"""Ways to lose the last commit or two, with their files."""
OPEN: dict[str, tuple[str, Deed]] = {
    "merge": ("A merge", lambda repo: git(repo, "merge", "--quiet", "--no-ff", "--no-commit", "side")),
    "resolved": ("A merge", lambda repo: _resolve(repo, "merge", "side")),
    "picked": ("A cherry-pick", lambda repo: _resolve(repo, "cherry-pick", "side")),
    "reverted": ("A revert", lambda repo: _resolve(repo, "revert", "HEAD~1")),
}
REWRITTEN: dict[str, Deed] = {
    "amend": lambda repo: git(repo, "commit", "--quiet", "--amend", "-m", "Mine"),
    "soft reset": lambda repo: git(repo, "reset", "--quiet", "--soft", "HEAD~1"),
    "mixed reset": lambda repo: git(repo, "reset", "--quiet", "HEAD~1"),
    "squash": lambda repo: _squash(repo),
    "orphan": lambda repo: git(repo, "update-ref", "refs/heads/main", _root_commit(repo)),
}
ALLOWED: dict[str, Deed] = {
    "a commit": lambda repo: git(repo, "commit", "--quiet", "--allow-empty", "-m", "Work"),
    "an identity": lambda repo: git(repo, "config", "user.name", "Agent"),
    "an upstream": lambda repo: git(repo, "config", "branch.main.remote", "origin"),
    "a staged file": lambda repo: git(repo, "rm", "--quiet", "1.txt"),
    "an edit": lambda repo: write(repo / "1.txt", "two\n"),
}


def _forge_index(repo: Path) -> None:
    """Hide a file in an index that has the same identity, size and time of writing as before."""
    index = repo / ".git" / "index"
    before, data = index.stat(), bytearray(index.read_bytes())
    data[72] |= 0x80  # "assume unchanged" of the first file, after a header of 12 bytes
    data[-20:] = hashlib.sha1(data[:-20], usedforsecurity=False).digest()
    index.write_bytes(data)
    os.utime(index, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert git(repo, "ls-files", "-v").startswith("h ")


def _squash(repo: Path) -> None:
    git(repo, "reset", "--quiet", "--soft", "HEAD~1")
    write(repo / "1.txt", "two\n")
    git(repo, "commit", "--quiet", "-am", "Both")


def _root_commit(repo: Path) -> str:
    return git(repo, "commit-tree", git(repo, "rev-parse", "HEAD^{tree}"), "-m", "Nobody's child")


def _empty_commit(repo: Path) -> str:
    return git(repo, "commit-tree", git(repo, "mktree"), "-m", "Nobody's child")


def _resolve(repo: Path, *command: str) -> None:
    """Begin what ends in a conflict, and resolve that without telling git."""
    write(repo / "1.txt", "main\n")
    git(repo, "commit", "--quiet", "-am", "Main")
    write(repo / "1.txt", "more\n")
    git(repo, "commit", "--quiet", "-am", "More")
    assert subprocess.run(["git", *command], cwd=repo, check=False, capture_output=True).returncode
    write(repo / "1.txt", "both\n")


def _leave_a_merge(repo: Path) -> None:
    git(repo, "switch", "--quiet", "-c", "side", "HEAD~1")
    write(repo / "1.txt", "side\n")
    git(repo, "commit", "--quiet", "-am", "Side")
    git(repo, "switch", "--quiet", "main")
    write(repo / "1.txt", "main\n")
    git(repo, "commit", "--quiet", "-am", "Main")
    subprocess.run(["git", "merge", "side"], cwd=repo, check=False, capture_output=True)


@pytest.mark.parametrize("name", FATAL)
def test_what_hides_or_forges_work_fails_the_attempt_and_is_undone(
    repo: Path, tmp_path: Path, name: str
) -> None:
    subject, deed = FATAL[name]
    guard = guard_of(repo, tmp_path / "kept")
    before = guard.look()
    deed(repo)
    left = git(repo, "rev-parse", "HEAD")
    found = asyncio.run(guard.compare(before, "run/task/1"))
    assert subject in {one.subject for one in found if one.fails}
    now = guard.look()
    assert now.files == before.files
    if name not in ("merge", "replace"):
        assert now.head == before.head
        assert not [one for one in asyncio.run(guard.compare(before, "again")) if one.fails]
    if now.head == before.head != left and name != "replace":
        assert git(repo, "rev-parse", "refs/segue/kept/run/task/1") == left, "nothing is deleted"


@pytest.mark.parametrize("name", REWRITTEN)
def test_a_history_without_which_no_work_is_gone_is_put_back_and_fails_nothing(
    repo: Path, tmp_path: Path, name: str
) -> None:
    guard = guard_of(repo, tmp_path / "kept")
    before = guard.look()
    REWRITTEN[name](repo)
    left = git(repo, "rev-parse", "HEAD")
    [found] = asyncio.run(guard.compare(before, "run/task/1"))
    assert (found.subject, found.fails) == ("history", False)
    assert guard.look().head == before.head
    assert git(repo, "rev-parse", "refs/segue/kept/run/task/1") == left, "nothing is deleted"


@pytest.mark.parametrize("name", DROPPED)
def test_files_of_dropped_commits_come_back_beside_the_work_of_the_agent(
    repo: Path, tmp_path: Path, name: str
) -> None:
    git(repo, "rm", "--quiet", "1.txt")
    write(repo / "odd *.txt", "odd\n")
    git(repo, "add", ".")
    git(repo, "commit", "--quiet", "-m", "Commit 3")
    git(repo, "commit", "--quiet", "--allow-empty", "-m", "Commit 4")
    if name != "rebase":
        git(repo, "reset", "--quiet", "--hard", "HEAD~1")
    guard = guard_of(repo, tmp_path / "kept")
    before = guard.look()
    DROPPED[name](repo)
    assert not (repo / "odd *.txt").exists()
    write(repo / "work.txt", "work\n")
    [found] = asyncio.run(guard.compare(before, "run/task/1"))
    assert (found.subject, found.fails) == ("history", False)
    assert "odd *.txt" in found.text
    assert guard.look().head == before.head
    assert git(repo, "status", "--porcelain") == "?? work.txt"


@pytest.mark.parametrize("name", OPEN)
def test_what_was_left_open_without_a_conflict_is_ended_by_the_commit(
    repo: Path, tmp_path: Path, name: str
) -> None:
    git(repo, "switch", "--quiet", "-c", "side")
    write(repo / "1.txt", "side\n")
    git(repo, "commit", "--quiet", "-am", "Side")
    git(repo, "switch", "--quiet", "main")
    guard = guard_of(repo, tmp_path / "kept")
    before = guard.look()
    what, deed = OPEN[name]
    deed(repo)
    [found] = asyncio.run(guard.compare(before, "run/task/1"))
    assert (found.subject, found.fails) == ("history", False)
    assert found.text == f"{what} was begun while the agent worked. The commit of the task ends it."
    git(repo, "commit", "--quiet", "--all", "-m", "Task")
    assert git(repo, "show", "HEAD:1.txt") == ("side" if name == "merge" else "both")
    assert guard.look().under_way == ()


@pytest.mark.parametrize("name", ALLOWED)
def test_ordinary_work_is_no_violation(repo: Path, tmp_path: Path, name: str) -> None:
    guard = guard_of(repo, tmp_path / "kept")
    before = guard.look()
    ALLOWED[name](repo)
    assert asyncio.run(guard.compare(before, "run/task/1")) == []


def test_new_branches_and_stashes_are_named(repo: Path, tmp_path: Path) -> None:
    guard = guard_of(repo, tmp_path / "kept")
    before = guard.look()
    git(repo, "branch", "elsewhere")
    write(repo / "1.txt", "two\n")
    git(repo, "stash")
    [found] = asyncio.run(guard.compare(before, "run/task/1"))
    assert not found.fails
    assert "heads/elsewhere" in found.text
    assert "stash" in found.text


def test_hooks_of_an_installer_are_undone_but_forgiven(repo: Path, tmp_path: Path) -> None:
    guard = guard_of(repo, tmp_path / "kept")
    before = guard.look()
    git(repo, "config", "core.hooksPath", ".husky/_")
    [found] = asyncio.run(guard.compare(before, "run/task/1"))
    assert not found.fails
    assert guard.look().files == before.files


def test_who_is_asked_to_set_hooks_up_is_not_to_blame(repo: Path, tmp_path: Path, plan: Path) -> None:
    hook = repo / ".git" / "hooks" / "pre-commit"
    for words, fails in (("Configure pre-commit hooks", False), ("Write a parser", True)):
        guard = LaunchGuard(tmp_path / words, guard_of(repo, tmp_path / "kept"), contract_of(plan))
        guard.before("task/1/execute/1")
        write(hook, "#!/bin/sh\nexit 0\n")
        found, failure = asyncio.run(guard.after("task/1/execute/1", Task("1", words, words), "run/1"))
        assert [one.subject for one in found] == ["git hooks"]
        assert (failure is not None) == fails
        assert not hook.exists()


def test_a_forged_diff_is_not_believed(repo: Path) -> None:
    """Neither attributes nor configuration have a say in what a judge is shown."""
    git(repo, "config", "diff.fake.textconv", "echo forged #")
    write(repo / ".gitattributes", "*.txt diff=fake\n*.py -diff\n")
    write(repo / "1.txt", "real\n")
    write(repo / "a.py", "x = 42\n")
    git(repo, "add", ".")
    git(repo, "commit", "--quiet", "-m", "Work")
    base, head = git(repo, "rev-parse", "HEAD~1"), git(repo, "rev-parse", "HEAD")
    shown = asyncio.run(Repository(repo, repo / ".git").diff(base, head))
    assert "+real" in shown
    assert "+x = 42" in shown
    assert "forged" not in shown


def test_what_must_not_be_committed_is_seen(repo: Path) -> None:
    place = Repository(repo, repo / ".git")
    write(repo / "app" / "main.py", "x = 1\n")
    git(repo / "app", "init", "--quiet")
    write(repo / "2.txt", "<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n")

    async def look() -> tuple[tuple[str, ...], tuple[str, ...]]:
        base = await place.snapshot()
        found = await place.changes(base, await place.snapshot())
        return found.links, found.conflicted

    links, conflicted = asyncio.run(look())
    assert (links, conflicted) == (("app/",), ()), "what cannot be committed at all is not looked at further"
    shutil.rmtree(repo / "app")
    assert asyncio.run(look()) == ((), ("2.txt",))


PLAN = "- [ ] T001 First\n- [ ] T002 Second\n- [ ] T003 Third\n"


def read_plan(path: Path) -> TaskList:
    """A list of boxes, as small as it can be."""
    tasks = []
    for line in path.read_text().splitlines():
        status = TaskStatus.DONE if line.startswith("- [x]") else TaskStatus.PENDING
        tasks.append(Task(line[6:10], line[11:], line[11:], status))
    return TaskList(tuple(tasks), (Notice(1, ""),))


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "tasks.md"
    path.write_text(PLAN)
    return path


def contract_of(plan: Path, *more: ContractFile) -> Contract:
    return Contract(plan.parent / "kept", (ContractFile(plan, "tasks"), *more), lambda: read_plan(plan))


OWN = Task("T001", "First", "First", kind=TaskKind.BUILD)


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (PLAN.replace("- [ ] T002", "- [x] T002"), ["marked T002 as done"]),
        (PLAN.replace("Third", "Nothing"), ["rewrote T003"]),
        ("- [x] T001 First\n", ["removed T002, T003"]),
        ("nonsense", ["added", "removed T001, T002, T003"]),
        (PLAN.replace("- [ ] T001", "- [x] T001"), []),
    ],
)
def test_a_changed_plan_is_put_back_and_named(plan: Path, now: str, said: list[str]) -> None:
    contract = contract_of(plan)
    before = contract.keep()
    plan.write_text(now)
    found = contract.restore(before, OWN)
    assert plan.read_text() == PLAN
    assert len(found) == len(said)
    assert all(words in one.text for words, one in zip(said, found, strict=True))


def test_only_segues_tables_of_a_shared_file_are_put_back(plan: Path) -> None:
    shared = plan.parent / "pyproject.toml"
    shared.write_text('[project]\nname = "a"\n\n[tool.segue]\nchecks = ["pytest -q"]\n\n[tool.ruff]\n')
    contract = contract_of(plan, ContractFile(shared, "settings"))
    before = contract.keep()
    shared.write_text(shared.read_text().replace('"a"', '"b"'))
    assert contract.restore(before, OWN) == []
    assert '"b"' in shared.read_text()
    shared.write_text(shared.read_text().replace("pytest -q", "true") + "[tool.segue.limits]\nattempts = 9\n")
    [found] = contract.restore(before, OWN)
    assert "[tool.segue]" in found.text
    text = shared.read_text()
    assert 'checks = ["pytest -q"]' in text
    assert "attempts" not in text
    assert '"b"' in text
    assert "[tool.ruff]" in text


def test_another_process_concludes_a_launch_that_one_before_it_began(
    repo: Path, tmp_path: Path, plan: Path
) -> None:
    """What was there before the launch outlives a kill."""

    def guard() -> LaunchGuard:
        return LaunchGuard(tmp_path / "guard", guard_of(repo, tmp_path / "kept"), contract_of(plan))

    guard().before("task/1/execute/1")
    plan.write_text(PLAN.replace("[ ]", "[x]"))
    git(repo, "reset", "--quiet", "--hard", "HEAD~1")
    found, failure = asyncio.run(guard().after("task/1/execute/1", OWN, "run/1"))
    assert {one.subject for one in found} == {"ticks", "history"}
    assert failure is not None
    assert failure.kind is FailureKind.TAMPERED
    assert plan.read_text() == PLAN
    assert asyncio.run(guard().after("task/1/execute/2", OWN, "run/1")) == ((), None)


def test_settings_changed_in_a_launch_that_was_cut_off_are_put_back_before_anybody_reads_them(
    tmp_path: Path, plan: Path
) -> None:
    settings = tmp_path / "segue.toml"
    settings.write_text('checks = ["pytest -q"]\n')
    folder = tmp_path / "guard"
    files = (ContractFile(plan, "tasks"), ContractFile(settings, "settings"))
    guard = LaunchGuard(folder, None, Contract(folder / "kept", files, lambda: read_plan(plan)))
    guard.before("task/1/execute/1")
    settings.write_text('checks = ["true"]\n')
    assert "segue.toml" in settle_settings(folder)
    assert settings.read_text() == 'checks = ["pytest -q"]\n'
    asyncio.run(guard.after("task/1/execute/1", OWN, "run/1"))
    settings.write_text('checks = ["make check"]\n')
    assert settle_settings(folder) == "", "a person changed them between two launches"
    assert settings.read_text() == 'checks = ["make check"]\n'


@pytest.mark.skipif(os.name == "nt", reason="modes of files are different there")
def test_what_is_kept_is_for_the_owner_alone(repo: Path, tmp_path: Path, plan: Path) -> None:
    folder = tmp_path / "guard"
    LaunchGuard(folder, guard_of(repo, folder / "kept"), contract_of(plan)).before("task/1/execute/1")
    config = (repo / ".git" / "config").read_bytes()
    kept = [path for path in folder.rglob("*") if path.is_file()]
    assert config in [path.read_bytes() for path in kept], "as it is, to be put back"
    assert {path.stat().st_mode & 0o777 for path in kept} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in (folder, folder / "kept")} == {0o700}


@pytest.mark.parametrize("is_removed", [False, True])
def test_settings_of_a_lane_are_put_back_too_after_a_kill(
    repo: Path, tmp_path: Path, is_removed: bool
) -> None:
    folder, lane = tmp_path / "guard", tmp_path / "lane"
    (repo / "segue.toml").write_text('checks = ["pytest -q"]\n')
    git(repo, "add", "segue.toml")
    git(repo, "commit", "--quiet", "-m", "Settings")
    git(repo, "worktree", "add", "--quiet", "--detach", str(lane))
    pointer = (lane / ".git").read_text()
    files = (ContractFile(lane / "segue.toml", "settings"),)
    contract = Contract(folder / "kept", files, lambda: TaskList(()))
    own = Path(git(lane, "rev-parse", "--absolute-git-dir"))
    guard = GitGuard(Repository(lane, own), repo / ".git", folder / "kept")
    LaunchGuard(folder / "lane-2", guard, contract).before("task/1/execute/1")
    (lane / "segue.toml").write_text('checks = ["true"]\n')
    (lane / ".git").write_text(f"gitdir: {tmp_path / 'mine'}\n")
    if is_removed:
        shutil.rmtree(lane)
        assert settle_settings(folder) == ""
        assert not lane.exists()
        return
    said = settle_settings(folder)
    assert "segue.toml" in said
    assert "where git's folder is" in said
    assert (lane / "segue.toml").read_text() == 'checks = ["pytest -q"]\n'
    assert (lane / ".git").read_text() == pointer
    assert settle_settings(folder) == ""


def test_a_cloud_branch_that_lacks_what_it_started_from_is_refused(repo: Path, tmp_path: Path) -> None:
    """The history of agents that work elsewhere is looked at too, where it can be seen."""
    remote = tmp_path / "remote.git"
    git(repo, "clone", "--quiet", "--bare", str(repo), str(remote))
    git(repo, "remote", "add", "origin", str(remote))
    before = git(repo, "rev-parse", "HEAD")
    git(repo, "switch", "--quiet", "-c", "good")
    git(repo, "commit", "--quiet", "--allow-empty", "-m", "Work")
    git(repo, "switch", "--quiet", "-c", "bad", f"{before}~1")
    git(repo, "commit", "--quiet", "--allow-empty", "-m", "Work on something else")
    git(repo, "push", "--quiet", "origin", "good", "bad")
    git(repo, "switch", "--quiet", "main")
    branches = RemoteBranches(Repository(repo, repo / ".git"), "origin", tmp_path / "scratch")
    start = Snapshot(before, "main", "")
    assert asyncio.run(branches.arrive(["good"], start)).branch == "good"
    with pytest.raises(WorkspaceError, match="does not contain"):
        asyncio.run(branches.arrive(["bad"], start))


def test_what_the_user_hid_from_git_stays_hidden_and_blames_nobody(repo: Path, tmp_path: Path) -> None:
    git(repo, "update-index", "--skip-worktree", "1.txt")
    guard = guard_of(repo, tmp_path / "kept")
    asyncio.run(guard.prepare())
    before = guard.look()
    git(repo, "update-index", "--assume-unchanged", "2.txt")
    [found] = asyncio.run(guard.compare(before, "run/task/1"))
    assert "2.txt" in found.text
    assert "1.txt" not in found.text
    assert git(repo, "ls-files", "-v") == "S 1.txt\nH 2.txt"
