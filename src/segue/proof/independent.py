"""Independent tests: written out of sight of the work, from what their author may see, and kept apart."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.proof import IndependentTests
from segue.proof.breadth import find_names, only_repeats
from segue.proof.interface import describe_interface
from segue.proof.paths import Classifier, PathKind
from segue.proof.trees import grep_words, list_tree
from segue.system.git.repository import Repository
from segue.system.git.scratch import export, keep_files, lay_over
from segue.system.lane import is_dependency

_LARGEST = 1024**2
_MOST_FILES = 20
_TEST_FILE = re.compile(r"(test_)?(.+\.pyi?|.+(?:[._-](?:test|spec))\.[cm]?[jt]sx?|.+_test\.\w+)")


class KeptTests(Struct, frozen=True):
    """Tests that were written, as they are kept."""

    commit: str
    files: tuple[str, ...]


class DetachedTests:
    """A place for tests that belong to no work tree, and that nobody who works can read.

    They are git objects in a folder of Segue's: the repository, which every agent reads, has none of them.
    """

    __test__ = False

    def __init__(self, repo: Repository, folder: Path, exams: Path) -> None:
        """Let their author work in a folder of the run; `exams` is where the tests of all runs are kept."""
        self._repo, self._folder = repo, folder
        self._objects = replace(repo.objects(), aside=exams)

    async def open(self, commit: str, name: str, earlier: IndependentTests | None = None) -> Path:
        """Return a folder with the files of a commit and no history; it stays until it is closed.

        `earlier`: also with tests that were written before, for whoever writes more of them.
        """
        folder = self._folder / _slug(name)
        await export(self._repo, commit, folder)
        for path in earlier.files if earlier is not None else ():
            text = await self._objects.read(earlier.commit, path) if earlier is not None else None
            if text is not None:
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_text(text, encoding="utf-8")
        return folder

    def close(self, name: str) -> None:
        """Remove the folder."""
        shutil.rmtree(self._folder / _slug(name), ignore_errors=True)

    def interface(self, name: str, text: str) -> str:
        """Return the public names in the files that a text names."""
        return describe_interface(self._folder / _slug(name), text)

    async def keep(
        self, name: str, task: str, commit: str, earlier: IndependentTests | None = None, number: int = 1
    ) -> KeptTests | None:
        """Keep the test files that were added to the folder since the commit; None: there are none.

        Those that were there `earlier` stay as they were; `number` is the round in which these were written.
        """
        folder = self._folder / _slug(name)
        before = (await self._repo.git("ls-tree", "-r", "-z", "--name-only", commit)) if commit else ""
        known = {*before.split("\0"), *(earlier.files if earlier is not None else ())}
        classifier = Classifier((), ())
        found = sorted(
            path
            for path in _files_in(folder)
            if path not in known and classifier.kind(path, new=True) is PathKind.TEST
        )
        label = f"{task}.{number}" if number > 1 else task
        files = {independent_path(path, label): folder / path for path in found[:_MOST_FILES]}
        if not files:
            return None
        message = f"Independent tests of task {label}"
        kept = await keep_files(self._objects, files, message, earlier.commit if earlier is not None else "")
        return KeptTests(kept, (*(earlier.files if earlier is not None else ()), *files))

    async def lay_over(self, tree: str, tests: Sequence[str], left_out: Collection[str] = ()) -> str:
        """Return a tree with the tests of some commits in it, except for some files."""
        return await lay_over(self._objects, tree, tests, left_out)

    async def has(self, commit: str) -> bool:
        """Return whether tests are here: those of another machine, or that were deleted, are not."""
        return await self._objects.has(commit)

    async def only_repeat(self, tests: IndependentTests, base: str, words: str) -> bool:
        """Return whether tests use no values but those of the task's words, and of tests before it."""
        entries = await list_tree(self._objects, base) if base else {}
        classifier = Classifier((), ())
        visible = {path: entry for path, entry in entries.items() if classifier.kind(path) is PathKind.TEST}
        lines = await grep_words(self._objects, visible, find_names(words))
        texts = {path: await self._objects.read(tests.commit, path) or "" for path in tests.files}
        return only_repeats(texts, "\n".join([words, *(line for _, line in lines)]))

    async def show(self, commit: str) -> str:
        """Return tests as a diff that adds them."""
        return await self._objects.diff("", commit)


async def write_tests(
    repo: Path, exams: Path, kept: Sequence[tuple[str, IndependentTests]], folder: Path
) -> list[Path]:
    """Write the tests of tasks into a folder for each, for people; return the files that were there."""
    objects = replace((await Repository.open(repo)).objects(), aside=exams)
    written = []
    for task, tests in kept:
        for path in tests.files:
            text = await objects.read(tests.commit, path)
            if text is not None:
                place = folder / _slug(task) / path
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(text, encoding="utf-8")
                written.append(place)
    return written


def independent_path(path: str, task: str) -> str:
    """Return a path that neither the work nor the tests of other tasks use; files that help keep theirs."""
    folder, _, name = path.rpartition("/")
    match = _TEST_FILE.fullmatch(name)
    is_test = match is not None and (not name.endswith(".py") or match[1] or name.endswith("_test.py"))
    if match is None or not is_test:
        return path
    word = re.sub(r"\W+", "_", task)
    return f"{folder}{'/' if folder else ''}{match[1] or ''}independent_{word}_{match[2]}"


def is_in(test: str, files: Sequence[str]) -> bool:
    """Return whether a test id belongs to one of the files: `a/b.py::test`, or `a.b.Case.test`."""
    for path in files:
        module = path.rpartition(".")[0].replace("/", ".")
        if test == path or test.startswith((f"{path}:", f"{path} ", f"{path}/", f"{module}.")):
            return True
    return False


_TELLING = 8
"""A shorter line of a test, such as `else:`, gives nothing away."""


def without_lines(output: str, source: str) -> str:
    """Return what a runner printed without the lines of tests that it quotes; `source` is a diff of them."""
    added = {line[1:].strip() for line in source.splitlines() if line.startswith("+")}
    telling = [line for line in added if len(line) >= _TELLING and not line.startswith("++ ")]
    return "\n".join(line for line in output.split("\n") if not any(one in line for one in telling))


def _files_in(folder: Path) -> Iterator[str]:
    """Yield small regular files, without dependencies and hidden folders."""
    for place, names, files in os.walk(folder):
        here = Path(place)
        names[:] = [
            name
            for name in names
            if not name.startswith((".", "__pycache__")) and not is_dependency(here / name)
        ]
        for name in files:
            path = here / name
            if "\n" not in str(path) and not path.is_symlink() and path.stat().st_size <= _LARGEST:
                yield path.relative_to(folder).as_posix()


def _slug(key: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", key).strip("-") or "task"
