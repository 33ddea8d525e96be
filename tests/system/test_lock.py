"""The lock of a repository, between a run that ends and whoever decides about it next."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from segue.domain.errors import Locked, WorkspaceError
from segue.system.lock import RepoLock


def test_a_run_that_is_about_to_end_is_waited_for(tmp_path: Path) -> None:
    async def decide() -> None:
        ending = RepoLock.take(tmp_path, "run-1")
        with pytest.raises(Locked):
            RepoLock.take(tmp_path, "run-1")
        waiting = asyncio.create_task(RepoLock.take_after(tmp_path, "run-1"))
        await asyncio.sleep(0)  # it has tried once
        assert not waiting.done()
        ending.release()
        lock = await waiting
        assert lock.held
        lock.release()

    asyncio.run(decide())


def test_another_run_is_not_waited_for(tmp_path: Path) -> None:
    other = RepoLock.take(tmp_path, "run-2")
    with pytest.raises(Locked, match="run-2"):
        asyncio.run(RepoLock.take_after(tmp_path, "run-1"))
    other.release()


def test_a_link_in_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("words")
    (tmp_path / "segue.lock").symlink_to(mine)
    with pytest.raises(WorkspaceError):
        RepoLock.take(tmp_path, "run")
    assert mine.read_text() == "words"
