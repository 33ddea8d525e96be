"""Run a check in place, where there is no sandbox: swap files in, run, and swap them back.

A plan is written before the first file is touched, so that `restore` gives back what was there even after the
process was killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import structs

from segue.proof.compose import Composed
from segue.proof.decide import Observed
from segue.proof.execute import environment, join_variables, observe, run_bounded, with_script, workplace
from segue.proof.notes import decode_note, encode_note
from segue.proof.options import SealOptions
from segue.proof.runners import Ended, Runner, Stage
from segue.proof.setup import check_setup
from segue.proof.trees import TreeEntry, write_tree
from segue.system.files import private_folder, write_atomic
from segue.system.git.objects import Objects
from segue.system.isolation.isolate import Isolation, capture_inside
from segue.system.isolation.policy import Places


class SwapPlan(msgspec.Struct, frozen=True):
    """What is put back, and where it is kept."""

    root: str
    saved: list[str]
    """Files that were there; their copies are kept under the same paths."""
    absent: list[str]
    """Files that were not there."""


class InPlace:
    """Runs checks in the work tree itself, one at a time."""

    def __init__(
        self,
        root: Path,
        scratch: Path,
        options: SealOptions,
        objects: Objects,
        head: Mapping[str, TreeEntry],
        isolation: Isolation,
    ) -> None:
        """Know the files of the head, which are in the work tree."""
        self._root, self._scratch, self._options = root, scratch, options
        self._objects, self._head, self._isolation = objects, head, isolation
        self._one = asyncio.Lock()
        self._is_set_up = False

    async def run(self, argv: Sequence[str], composed: Composed, armed: Sequence[Runner]) -> Observed:
        """Run the command with the tree's files in place and put back what was there."""
        async with self._one, workplace(self._scratch) as (work, token):
            stage, ended = await self._run(tuple(argv), composed, armed, work, token)
            return observe(stage, armed, ended)

    async def try_out(self, argv: Sequence[str], composed: Composed, script: Path | None = None) -> Ended:
        """Run a command that is no check; with a script, Python (its first word) runs the script with it."""
        async with self._one, workplace(self._scratch) as (work, token):
            words = with_script(argv, script, work / "hooks")
            return (await self._run(words, composed, (), work, token))[1]

    async def _run(
        self, argv: tuple[str, ...], composed: Composed, armed: Sequence[Runner], work: Path, token: str
    ) -> tuple[Stage, Ended]:
        hooks, reports, files = work / "hooks", work / "reports", work / "files"
        # Independent tests are part of the head, but not of the work tree.
        differing = {
            path: entry
            for path, entry in composed.entries.items()
            if self._head.get(path) != entry or not os.path.lexists(self._root / path)
        }
        wanted = {**differing, **{path: composed.entries[path] for path in composed.texts}}
        await write_tree(self._objects, wanted, files)
        for path, text in composed.texts.items():
            (files / path).write_bytes(text)
        gone = [path for path in self._head if path not in composed.entries]
        try:
            swap(self._scratch, self._root, files, wanted=list(wanted), gone=gone, kept=composed.tests)
            stage = Stage(argv, self._root, self._root, hooks, reports, token, composed.tests)
            env = environment(join_variables(runner.arm(stage) for runner in armed), network=True)
            env["PYTHONPYCACHEPREFIX"] = str(work / "compiled")
            await self._set_up()
            ended = await self._run_inside(argv, env, Places((work,)), network=self._options.network)
        finally:
            restore(self._scratch)
        return stage, ended

    async def _set_up(self) -> None:
        """Run the setup commands once for a check, in the work tree itself."""
        for command in () if self._is_set_up else self._options.setup:
            check_setup(command, await self._run_open(command))
        self._is_set_up = True

    async def tear_down(self, composed: Composed) -> None:  # noqa: ARG002 - it happens in place
        """Run the commands that follow a check; how they end does not matter."""
        for command in self._options.teardown:
            await self._run_open(command)

    async def _run_open(self, command: Sequence[str]) -> Ended:
        env = environment({}, network=True)
        return await self._run_inside(command, env, Places(), network=True)

    async def _run_inside(
        self, argv: Sequence[str], env: Mapping[str, str], own: Places, *, network: bool
    ) -> Ended:
        limit = self._options.timeout
        running = capture_inside(self._isolation, argv, self._root, env, limit, network=network, own=own)
        ended = await run_bounded(running)
        if ended.exit_code == 0:
            return ended
        said = self._isolation.explain(f"{ended.out}\n{ended.err}")
        return structs.replace(ended, err=f"{ended.err}\n{said}") if said else ended


def swap(
    scratch: Path, root: Path, files: Path, wanted: Sequence[str], gone: Sequence[str], kept: Sequence[str]
) -> None:
    """Put the wanted files of a folder into the work tree and remove others, after all of them were saved.

    Those that are kept are saved only, because a runner may append to them.
    """
    paths = [*wanted, *gone, *kept]
    place = scratch / "swap"
    shutil.rmtree(place, ignore_errors=True)
    saved, absent = [], []
    for path in dict.fromkeys(paths):
        source = root / path
        if source.is_symlink() or source.is_file():
            copy = place / "saved" / path
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy, follow_symlinks=False)
            saved.append(path)
        else:
            absent.append(path)
    _sync(place / "saved")
    private_folder(place)
    write_atomic(place / "plan.json", encode_note(SwapPlan(str(root), saved, absent)))
    for path in gone:
        _remove(root, path)
    for path in wanted:
        _put(files / path, root / path)


def restore(scratch: Path) -> None:
    """Put back what an interrupted check has swapped; does nothing if there is nothing to do."""
    place = scratch / "swap"
    record = place / "plan.json"
    if not record.exists():
        shutil.rmtree(place, ignore_errors=True)
        return
    plan = decode_note(record.read_bytes(), SwapPlan)
    root = Path(plan.root)
    for path in plan.absent:
        _remove(root, path)
    for path in plan.saved:
        _put(place / "saved" / path, root / path)
    record.unlink()
    shutil.rmtree(place, ignore_errors=True)


def _put(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    part = target.with_name(f".{target.name}.segue-part")
    shutil.copy2(source, part, follow_symlinks=False)
    part.replace(target)


def _remove(root: Path, path: str) -> None:
    """Remove a file, and the folders that are empty without it."""
    target = root / path
    with contextlib.suppress(OSError):
        target.unlink()
    with contextlib.suppress(OSError):
        for folder in target.relative_to(root).parents:
            if folder != Path():
                (root / folder).rmdir()


def _sync(folder: Path) -> None:
    for path in folder.rglob("*") if folder.exists() else ():
        if path.is_file() and not path.is_symlink():
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
