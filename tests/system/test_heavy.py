"""Files that are too much for git: found by their size, before git reads them, and left where they are."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from segue.config.git import GitSettings
from segue.domain.errors import WorkspaceError
from segue.system.git import outside
from segue.system.git.index import allow_bytes, find_heavy
from segue.system.git.repository import Repository
from tests.system.test_git import git

MIB = 1024**2
HUGE = 24 << 30


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repository]:
    root = Path(os.path.realpath(tmp_path)) / "repo"
    root.mkdir()
    git(root, "init", "--quiet", "--initial-branch=main")
    (root / "empty.py").touch()
    (root / "code.py").write_text("x = 1\n")
    git(root, "add", "--all")
    git(root, "-c", "user.name=x", "-c", "user.email=x@localhost", "commit", "--quiet", "-m", "Begin")
    yield Repository(root, root / ".git")
    allow_bytes(GitSettings().add_bytes)


def grow(path: Path | bytes, size: int) -> None:
    """Make a file that has a size and no content."""
    with open(path, "ab") as file:  # noqa: PTH123 - a name that is no text
        file.truncate(size)


def committed(repo: Repository) -> list[str]:
    return git(repo.root, "show", "--format=", "--name-only", "HEAD").split()


@pytest.mark.parametrize("name", [b"big.bin", b"new/sp ace.bin", b"not\xff.bin", b":(exclude)*", b"code.py"])
def test_a_file_beyond_the_bound_is_left_out_and_named(repo: Repository, name: bytes) -> None:
    async def work() -> None:
        base = await repo.snapshot()
        path = os.path.join(os.fsencode(repo.root), name)  # noqa: PTH118 - bytes
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
        grow(path, HUGE)
        (repo.root / "work.txt").write_text("done")
        now = await repo.snapshot()
        shown = f"{name.decode('utf-8', 'replace')} (24 GiB)"
        assert (await repo.changes(base, now)).heavy == (shown,)
        await repo.patch(base.head, now)
        assert await repo.commit("Work")
        assert committed(repo) == ["work.txt"]
        assert os.stat(path).st_size == HUGE  # noqa: PTH116
        # Whoever comes next is not blamed for it.
        later = await repo.snapshot()
        (repo.root / "more.txt").write_text("done")
        assert (await repo.changes(later, await repo.snapshot())).heavy == ()
        assert await repo.commit("More")
        assert committed(repo) == ["more.txt"]

    asyncio.run(work())


def test_all_files_together_stay_within_the_bound() -> None:
    allow_bytes(10 * MIB)
    try:
        assert find_heavy([("a", 4 * MIB), ("b", 5 * MIB), ("c", 6 * MIB)]) == (("c", 6 * MIB),)
        assert len(find_heavy((str(n), 0) for n in range(2561))) == 1, "a file without content takes room too"
    finally:
        allow_bytes(GitSettings().add_bytes)


@pytest.mark.parametrize(("name", "size"), [("empty.py", 1 << 40), ("code.py", (1 << 40) + 6)])
def test_git_is_stopped_when_it_reads_to_see_whether_a_file_has_changed(
    repo: Repository, name: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outside, "_LONG", 0.2)
    grow(repo.root / name, size)
    with pytest.raises(WorkspaceError, match=rf"git to read: {name} \(1 TiB\)"):
        asyncio.run(repo.snapshot())
