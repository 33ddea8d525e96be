"""Work is merged without a work tree, exactly as git would; nothing of it runs, nothing is lost."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import tempfile
from asyncio import run
from collections.abc import Mapping
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.domain.errors import WorkspaceError
from segue.domain.workspace import Merged
from segue.system.git.integration import Integration, catch_up, parse_merge
from segue.system.git.repository import Repository
from tests.system.test_git import git, repo

__all__ = ["repo"]
RUN = "segue/run"
NUMBERS = count()


def integrate(repo: Path, since: float = 0.0) -> Integration:
    return Integration(run(Repository.open(repo)), RUN, since)


def commit(repo: Path, base: str, files: Mapping[str, bytes | None], message: str = "Work") -> str:
    """Commit these files on top of a commit, without a work tree; None removes a file."""
    parts = [b"commit refs/work/%d\nmark :1\n" % next(NUMBERS), b"committer Test <test@localhost> 1 +0000\n"]
    parts += [b"data %d\n%b\nfrom %b\n" % (len(message.encode()), message.encode(), base.encode())]
    for name, content in files.items():
        path = b'"%b"' % re.sub(rb'([\\"])', rb"\\\1", os.fsencode(name)).replace(b"\n", b"\\n")
        if content is None:
            parts.append(b"D %b\n" % path)
        else:
            parts.append(b"M 100644 inline %b\ndata %d\n%b\n" % (path, len(content), content))
    done = subprocess.run(
        ["git", "fast-import", "--quiet"],
        cwd=repo,
        input=b"".join([*parts, b"\nget-mark :1\n"]),
        capture_output=True,
        check=True,
    )
    return done.stdout.decode().strip()


def sides(
    repo: Path, start: dict[str, bytes], ours: dict[str, bytes | None], theirs: dict[str, bytes | None]
) -> tuple[str, str]:
    base = commit(repo, "HEAD", start)
    return commit(repo, base, ours), commit(repo, base, theirs)


def merge(repo: Path, ours: str, theirs: str) -> Merged:
    return run(integrate(repo).merge(ours, theirs))


def show(repo: Path, tree: str, path: str) -> bytes:
    return subprocess.run(
        ["git", "cat-file", "blob", f"{tree}:{path}"], cwd=repo, check=True, capture_output=True
    ).stdout


def test_a_collision_names_the_files_and_keeps_a_tree_with_markers(repo: Path) -> None:
    ours, theirs = sides(
        repo,
        {"a": b"1\n", "b": b"1\n", "c": b"1\n"},
        {"b": b"2\n", "a": b"2\n", "d": b"d\n"},
        {"a": b"3\n", "b": b"3\n", "c": b"c\n"},
    )
    merged = merge(repo, ours, theirs)
    assert merged.tree == ""
    assert merged.conflicts == ("a", "b")
    assert "Merge conflict in a" in merged.said
    assert show(repo, merged.marked, "a").startswith(b"<<<<<<< ")
    assert show(repo, merged.marked, "c") == b"c\n"
    assert show(repo, merged.marked, "d") == b"d\n"


def test_names_of_any_bytes_are_read(repo: Path) -> None:
    odd = [os.fsdecode(name) for name in (b"line\nend", b"n\xffn", b' quoted" \\\t', "ü".encode())]
    start: dict[str, bytes] = dict.fromkeys(odd, b"1\n")
    ours, theirs = sides(repo, start, dict.fromkeys(odd, b"2\n"), dict.fromkeys(odd, b"3\n"))
    assert set(merge(repo, ours, theirs).conflicts) == {"line\nend", "n\ufffdn", ' quoted" \\\t', "ü"}


def test_no_program_that_the_repository_names_is_run(
    repo: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    trace = tmp_path_factory.mktemp("out") / "ran"
    evil = f"touch {trace}; false"
    ours, theirs = sides(
        repo,
        {".gitattributes": b"* merge=evil filter=evil diff=evil\n", "a": b"1\n"},
        {"a": b"2\n"},
        {"a": b"3\n"},
    )
    git(repo, "config", "merge.renormalize", "true")
    hook = repo / ".git" / "hooks" / "reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {trace}\n")
    hook.chmod(0o755)
    git(repo, "branch", RUN, ours)
    trace.unlink()
    for name in (
        "merge.evil.driver",
        "merge.default",
        "filter.evil.clean",
        "diff.evil.textconv",
        "core.fsmonitor",
    ):
        git(repo, "config", name, evil)
    (repo / ".git" / "info").mkdir(exist_ok=True)
    (repo / ".git" / "info" / "attributes").write_text("* merge=evil\n")
    own = integrate(repo)
    assert run(own.merge(ours, theirs)).conflicts == ("a",)
    made = run(own.join(ours, theirs, git(repo, "rev-parse", f"{ours}^{{tree}}"), "Merge\n"))
    assert run(own.advance(ours, made))
    assert not trace.exists()


@pytest.mark.parametrize("kind", ["--depth=1", "--filter=blob:none", "--bare"])
def test_every_kind_of_repository_can_be_merged_in(
    repo: Path, tmp_path_factory: pytest.TempPathFactory, kind: str
) -> None:
    folder = tmp_path_factory.mktemp("kinds")
    place = folder / "place"
    if kind == "sha256":
        git(folder, "init", "--quiet", "--object-format=sha256", "place")
        git(place, "commit", "--quiet", "--allow-empty", "--message=Start")
    else:
        git(repo, "config", "uploadpack.allowFilter", "true")
        (repo / "file").write_text("newer\n")
        git(repo, "commit", "--quiet", "--all", "--message=More")
        git(folder, "clone", "--quiet", kind, str(repo) if kind == "--shared" else f"file://{repo}", "place")
    if kind == "--bare":
        git(place, "worktree", "add", "--quiet", "--detach", str(folder / "tree"))
        place = folder / "tree"
    git(place, "branch", RUN)
    start = git(place, "rev-parse", RUN)
    ours, theirs = commit(place, start, {"file": b"1\n"}), commit(place, start, {"b": b"2\n"})
    own = integrate(place)
    made = run(own.join(ours, theirs, run(own.merge(ours, theirs)).tree, "Merge\n"))
    assert run(own.advance(start, made))
    assert git(place, "ls-tree", "--name-only", RUN).split() == ["b", "file"]


def test_work_without_common_history_collides(repo: Path) -> None:
    head = git(repo, "rev-parse", "HEAD")
    alien = git(repo, "commit-tree", "-m", "alien", f"{head}^{{tree}}")
    merged = merge(repo, head, alien)
    assert (merged.tree, merged.conflicts, merged.marked) == ("", (), "")
    assert "no history in common" in merged.said


def test_a_merge_has_both_parents_and_the_message(repo: Path) -> None:
    ours, theirs = sides(repo, {}, {"a": b"1\n"}, {"b": b"2\n"})
    own = integrate(repo)
    made = run(
        own.join(ours, theirs, run(own.merge(ours, theirs)).tree, "Merge task 2: ü\n\nSegue-Step: x\n")
    )
    assert git(repo, "log", "-1", "--format=%P", made).split() == [ours, theirs]
    assert git(repo, "log", "-1", "--format=%B|%an", made) == "Merge task 2: ü\n\nSegue-Step: x\n|Test"


def test_a_gc_that_is_at_work_is_waited_for(repo: Path) -> None:
    ours, theirs = sides(repo, {}, {"a/b": b"1\n"}, {"a/c": b"2\n"})
    git(repo, "branch", RUN, ours)
    own = integrate(repo)
    tree = run(own.merge(ours, theirs)).tree
    collector = subprocess.Popen(["git", "cat-file", "--batch"], cwd=repo, stdin=subprocess.PIPE)
    (repo / ".git" / "gc.pid").write_text(f"{collector.pid} here")

    async def work() -> None:
        joining = asyncio.ensure_future(own.join(ours, theirs, tree, "Merge\n"))
        assert not (await asyncio.wait([joining], timeout=0.3))[0], "a commit could be removed at once"
        git(repo, "prune", "--expire=now")
        await asyncio.to_thread(collector.communicate)
        assert await own.advance(ours, await joining)

    run(work())
    git(repo, "fsck", "--strict", "--connectivity-only")
    assert show(repo, RUN, "a/c") == b"2\n"


def test_the_branch_moves_only_from_where_it_was(repo: Path) -> None:
    git(repo, "branch", RUN)
    own = integrate(repo)
    start = run(own.head())
    first, second = commit(repo, start, {"a": b"1\n"}), commit(repo, start, {"b": b"1\n"})
    assert run(own.advance(start, first))
    assert not run(own.advance(start, second)), "somebody has moved it"
    assert run(own.advance(start, first)), "it is already there: a repetition after a kill"
    assert run(own.head()) == first
    assert "segue: merge" in git(repo, "reflog", "show", RUN)


@pytest.fixture
def tree(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run's own work tree, on its branch."""
    folder = tmp_path_factory.mktemp("own") / "tree"
    git(repo, "worktree", "add", "--quiet", "-b", RUN, str(folder))
    return folder


def sync(own: Integration, tree: Path) -> None:
    async def work() -> None:
        await own.sync(await Repository.open(tree))

    run(work())


def test_the_work_tree_follows_the_branch_and_keeps_what_is_uncommitted(repo: Path, tree: Path) -> None:
    own = integrate(repo)
    sync(own, tree)
    assert git(tree, "branch", "--show-current") == ""
    (tree / "note").write_text("mine")
    start = run(own.head())
    assert run(own.advance(start, commit(repo, start, {"a": b"1\n", "file": b"new\n"})))
    sync(own, tree)
    sync(own, tree)
    assert git(tree, "rev-parse", "HEAD") == run(own.head())
    assert git(tree, "status", "--porcelain") == "?? note"
    assert (tree / "file").read_text() == "new\n"


@pytest.mark.parametrize("name", ["file", "new", "ignored"])
def test_uncommitted_work_is_never_overwritten(repo: Path, tree: Path, name: str) -> None:
    own = integrate(repo)
    sync(own, tree)
    (repo / ".git" / "info").mkdir(exist_ok=True)
    (repo / ".git" / "info" / "exclude").write_text("ignored\n")
    start = run(own.head())
    made = commit(repo, start, dict.fromkeys(("file", "new", "ignored"), b"theirs\n"))
    (tree / name).write_text("mine\n")
    assert run(own.advance(start, made))
    with pytest.raises(WorkspaceError):
        sync(own, tree)
    assert (tree / name).read_text() == "mine\n"
    assert git(tree, "rev-parse", "HEAD") == start


def test_where_somebody_is_on_the_branch_the_files_follow_it(repo: Path) -> None:
    git(repo, "switch", "--quiet", "--create", RUN)
    (repo / "note").write_text("mine")
    own = integrate(repo)
    start = run(own.head())
    new = commit(repo, start, {"a": b"1\n"})
    assert run(own.advance(start, new))
    assert git(repo, "status", "--porcelain", "--branch") == f"## {RUN}\n?? note"
    assert run(own.head()) == new
    assert not run(own.advance(start, commit(repo, start, {"b": b"1\n"})))


def test_a_run_catches_up_with_what_the_user_committed(repo: Path) -> None:
    git(repo, "branch", RUN)
    own = integrate(repo)
    start = run(own.head())
    assert run(own.advance(start, commit(repo, start, {"a": b"1\n"})))
    assert run(catch_up(own.repo, own, "main")) is None
    assert run(catch_up(own.repo, own, "")) is None, "the user was on no branch"
    (repo / "b").write_text("user\n")
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "--message=User")
    merged = run(catch_up(own.repo, own, "main"))
    assert merged is not None
    assert merged.theirs == git(repo, "rev-parse", "main")
    assert run(
        own.advance(merged.ours, run(own.join(merged.ours, merged.theirs, merged.tree, "Merge main\n")))
    )
    assert run(catch_up(own.repo, own, "main")) is None
    git(repo, "merge", "--quiet", "--ff-only", RUN)
    assert sorted(path.name for path in repo.iterdir()) == [".git", "a", "b", "file"]


CONTENTS = st.lists(st.sampled_from("abcd"), max_size=6).map(
    lambda lines: "".join(f"{x}\n" for x in lines).encode()
)
EDITS = st.dictionaries(st.sampled_from(["a", "b", "d/c", "d/e"]), st.none() | CONTENTS, max_size=3)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["a", "b", "d/c"]), CONTENTS, min_size=1), EDITS, EDITS)
def test_it_agrees_with_git_merge(
    start: dict[str, bytes], ours: dict[str, bytes | None], theirs: dict[str, bytes | None]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        repo = Path(folder)
        git(repo, "init", "--quiet", "--initial-branch=main")
        for name, value in (("user.name", "Test"), ("user.email", "test@localhost"), ("gc.auto", "0")):
            git(repo, "config", name, value)
        git(repo, "commit", "--quiet", "--allow-empty", "--message=Start")
        base = commit(repo, "HEAD", start)
        made = [
            commit(repo, base, {n: c for n, c in side.items() if c is not None or n in start})
            for side in (ours, theirs)
        ]
        merged = merge(repo, *made)
        git(repo, "checkout", "--quiet", "--detach", made[0])
        real = subprocess.run(
            ["git", "merge", "--quiet", "--no-edit", made[1]], cwd=repo, check=False, capture_output=True
        )
        if real.returncode == 0 and b"CONFLICT" not in real.stdout:
            assert merged.tree == git(repo, "rev-parse", "HEAD^{tree}")
        else:
            assert not merged.tree
            assert (
                not real.returncode
                or list(merged.conflicts) == git(repo, "diff", "--name-only", "--diff-filter=U").split()
            )
        back = merge(repo, made[1], made[0])
        if ours.keys().isdisjoint(theirs):
            assert back.tree == merged.tree != "", "disjoint files are merged in any order"
        assert back.conflicts == merged.conflicts


@given(st.binary(max_size=200), st.booleans())
def test_any_output_is_read(raw: bytes, clean: bool) -> None:
    try:
        parse_merge(raw, clean)
    except UnicodeDecodeError:
        assert not raw.partition(b"\0")[0].isascii()
