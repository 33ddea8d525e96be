"""Commits of a run that was driven elsewhere, to look at: unpacked from bundles, without files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from segue.domain.errors import WorkspaceError
from segue.system.git.bundles import as_file, run_in_mirror

_FETCH = ("fetch", "--quiet", "--no-tags", "--no-auto-gc", "--no-write-fetch-head", "--no-recurse-submodules")


async def unpack_commits(
    folder: Path, bundles: Sequence[bytes], borrow: Path | None, *, long: bool = False
) -> None:
    """Make an empty folder a git folder that has the commits of bundles.

    `borrow` is a git folder with commits that they build on; with `long` names commits have 64 digits.
    """
    shape = ("--object-format=sha256",) if long else ()
    await run_in_mirror(folder, "init", "--quiet", "--bare", "--template=", *shape)
    if borrow is not None:
        (folder / "objects" / "info").mkdir(parents=True, exist_ok=True)
        (folder / "objects" / "info" / "alternates").write_text(f"{borrow / 'objects'}\n")
    for number, data in enumerate(bundles):
        with as_file(data) as bundle:
            done = await run_in_mirror(folder, *_FETCH, bundle, f"+refs/*:refs/looked/{number}/*")
        if done.exit_code != 0:
            said = done.err.decode("utf-8", "replace").strip()[-500:]
            raise WorkspaceError(f"git cannot read the stored work: {said}", kept="Nothing was changed.")
