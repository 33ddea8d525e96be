"""Runs the instances of a published dataset again, from the record alone: without a database or repository.

An instance holds if all tests of FAIL_TO_PASS fail on its base with its tests, and pass with its patch, and
all of PASS_TO_PASS pass both times.
"""

from __future__ import annotations

import gzip
import io
import json
import shlex
import sys
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec import Struct

from segue.domain.amounts import list_some
from segue.domain.errors import SegueError, UsageError
from segue.proof.execute import SealOptions
from segue.proof.report import TestOutcome
from segue.proof.runs import Observed
from segue.proof.seal import Sealer
from segue.proof.trees import list_tree, write_tree
from segue.system.extras import missing_extra
from segue.system.git.objects import Objects
from segue.system.git.repository import Repository
from segue.system.git.scratch import init_repository
from segue.system.isolation.isolate import Isolation
from segue.system.programs import find_inside

_LISTED = 3
_IDENTITY = ("-c", "user.name=Segue", "-c", "user.email=segue@example.invalid", "-c", "commit.gpgsign=false")

Clean = Callable[[str, Any], Any]


class VerifiedInstance(Struct, frozen=True):
    """Whether an instance holds, and which tests pass with and without its patch."""

    instance: str
    problem: str = ""
    """Why it does not hold; empty: it does."""
    fail_to_pass: tuple[str, ...] = ()
    pass_to_pass: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether it can be run again with the same result."""
        return not self.problem


def read_rows(folder: Path) -> list[dict[str, Any]]:
    """Return the instances of a published dataset."""
    place = folder / "data" / "instances.parquet"
    if not place.exists():
        raise UsageError(f"{folder} has no data/instances.parquet.", hint="Name a published dataset")
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise missing_extra("Parquet needs a library that is not installed.", "parquet") from error
    found: list[dict[str, Any]] = parquet.read_table(place).to_pylist()
    return found


async def pack_base(objects: Objects, commit: str, place: Path, clean: Clean) -> None:
    """Write the files of a commit as an archive that is the same each time."""
    with tempfile.TemporaryDirectory(prefix="segue-base-") as held:
        tree = Path(held).resolve() / "tree"
        await write_tree(objects, await list_tree(objects, commit), tree)
        place.parent.mkdir(parents=True, exist_ok=True)
        with gzip.GzipFile(place, "wb", mtime=0) as zipped, tarfile.open(fileobj=zipped, mode="w") as archive:
            for path in sorted(one for one in tree.rglob("*") if one.is_symlink() or one.is_file()):
                _add(archive, path, str(path.relative_to(tree)), clean)


def _add(archive: tarfile.TarFile, path: Path, name: str, clean: Clean) -> None:
    entry = archive.gettarinfo(path, name)
    entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = 0, 0, 0, "", ""
    if not entry.isreg():
        archive.addfile(entry)
        return
    data = path.read_bytes()
    with suppress(UnicodeDecodeError):  # a binary file
        data = clean("bases", data.decode("utf-8")).encode()
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))


async def verify_row(
    row: dict[str, Any], folder: Path, isolation: Isolation, timeout: float, *, learn: bool = False
) -> VerifiedInstance:
    """Run one instance again. With `learn`, PASS_TO_PASS is what passes with and without the patch."""
    name = str(row["instance_id"])
    try:
        with tempfile.TemporaryDirectory(prefix="segue-verify-") as held:
            before, after = await _run_twice(row, folder, Path(held).resolve(), isolation, timeout)
    except (SegueError, OSError, tarfile.TarError) as error:
        return VerifiedInstance(name, str(error) or type(error).__name__)
    return _compare(name, row, before, after, learn)


Passed = dict[str, bool]
"""Whether each test passed, by id; commands that report no tests count as one."""


async def _run_twice(
    row: dict[str, Any], folder: Path, held: Path, isolation: Isolation, timeout: float
) -> tuple[Passed, Passed]:
    root = held / "repo"
    root.mkdir()
    archive = folder / str(row["base_archive"])
    if archive.resolve().parent != (folder / "bases").resolve() or not archive.is_file():
        raise UsageError("its base is not in bases/")
    with tarfile.open(archive) as packed:
        packed.extractall(root, _list_safe(packed), filter="data")
    repo = await init_repository(root, "--initial-branch=main")
    await _commit(repo, "base")
    await _apply(repo, str(row["test_patch"]), "test_patch")
    without = await _commit(repo, "tests")
    await _apply(repo, str(row["patch"]), "patch")
    with_patch = await _commit(repo, "patch")
    sealer = Sealer(root, repo.git_dir, held / "checks", SealOptions(timeout=timeout), isolation=isolation)
    commands = [_find_program(shlex.split(text)) for text in json.loads(row["test_commands"])]
    found = []
    for commit in (without, with_patch):
        passed: Passed = {}
        for text, argv in zip(json.loads(row["test_commands"]), commands, strict=True):
            passed |= _read(text, await sealer.observe(argv, commit))
        found.append(passed)
    return found[0], found[1]


def _find_program(argv: list[str]) -> list[str]:
    """Return the command; where there is no `python`, the one that Segue runs with takes its place."""
    if argv[0] in ("python", "python3") and find_inside(argv[0]) is None:
        return [sys.executable, *argv[1:]]
    return argv


def _read(command: str, seen: Observed) -> Passed:
    found = {command: seen.exit_code == 0}
    if seen.report is not None:
        for case in seen.report.tests.values():
            if case.outcome is not TestOutcome.SKIPPED and not case.whole_file:
                found[case.id] = case.outcome is TestOutcome.PASSED
    return found


def _compare(name: str, row: dict[str, Any], before: Passed, after: Passed, learn: bool) -> VerifiedInstance:
    wanted = [str(test) for test in json.loads(row["FAIL_TO_PASS"])]
    kept = [str(test) for test in json.loads(row["PASS_TO_PASS"])]
    commands = json.loads(row["test_commands"])
    if learn:
        kept = sorted(test for test in after if after[test] and before.get(test) and test not in commands)
    checked = (
        ("pass without the patch", [test for test in wanted if before.get(test)]),
        ("do not pass with it", [test for test in wanted if not after.get(test)]),
        (
            "of PASS_TO_PASS do not pass",
            [test for test in kept if not (before.get(test) and after.get(test))],
        ),
    )
    problems = [f"{list_some(tests, _LISTED)} {words}" for words, tests in checked if tests]
    if not wanted:
        problems.append("FAIL_TO_PASS is empty")
    return VerifiedInstance(name, "; ".join(problems), tuple(wanted), tuple(kept))


async def _apply(repo: Repository, patch: str, name: str) -> None:
    if not patch:
        return
    done = await repo.try_git("apply", "--binary", "--whitespace=nowarn", "-", stdin=patch.encode())
    if done.exit_code != 0:
        raise UsageError(f"its {name} does not apply: {done.said[:200]}")


async def _commit(repo: Repository, message: str) -> str:
    await repo.git("add", "--all", "--force")
    await repo.git(*_IDENTITY, "commit", "--quiet", "--allow-empty", "--no-verify", "-m", message)
    return (await repo.git("rev-parse", "HEAD")).strip()


def _list_safe(packed: tarfile.TarFile) -> list[tarfile.TarInfo]:
    """Return the members but for what git would read as its own: whoever packed them is a stranger."""
    return [one for one in packed.getmembers() if ".git" not in map(str.lower, PurePosixPath(one.name).parts)]


def complete(row: dict[str, Any], found: VerifiedInstance) -> dict[str, Any]:
    """Return the row with the tests that pass with and without its patch."""
    return {**row, "PASS_TO_PASS": json.dumps(found.pass_to_pass)}


def count_holding(found: Sequence[VerifiedInstance]) -> int:
    """Return how many hold."""
    return sum(one.holds for one in found)
