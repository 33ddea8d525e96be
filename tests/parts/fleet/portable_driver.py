"""A process to kill or to run beside others: it opens a clone and brings it into a packed state."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import msgspec

from segue.parts.fleet.git.clones import Clones
from segue.parts.fleet.git.portable import Packed, unpack


async def work(url: str, commit: str, cache: Path, into: Path, packed: str) -> None:
    """Open the clone, and unpack what the file contains, if one is named."""
    repo = await Clones(cache).open(url, commit, into)
    if packed:
        await unpack(repo, msgspec.msgpack.decode(Path(packed).read_bytes(), type=Packed))


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]), sys.argv[5]))
