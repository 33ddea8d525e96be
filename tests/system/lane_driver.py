"""A process to kill: it opens lanes, leaves work in them, makes them ready for other tasks, removes them."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from segue.system.git.lanes import LaneTrees
from segue.system.git.repository import Repository

RUN = "20261116-010203-abcd"


async def work(repo: Path, folder: Path, first: str, second: str) -> None:
    """Do again what was not finished; each task leaves its work once."""
    lanes = LaneTrees(await Repository.open(repo), folder, RUN)
    await asyncio.gather(*(_use(lanes, number, folder, first, second) for number in (1, 2)))
    await lanes.close()


async def _use(lanes: LaneTrees, number: int, folder: Path, first: str, second: str) -> None:
    lane = await lanes.open(number, first)
    begun = folder / f"begun-{number}"
    if not begun.exists():
        (lane.root / "file").write_text(f"edit of {number}\n")
        (lane.root / "new folder").mkdir(exist_ok=True)
        (lane.root / "new folder" / "work").write_text(f"work of {number}\n")
        begun.touch()
    await lanes.prepare(lane, second)


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:]))
