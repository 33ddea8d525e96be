"""The same cases under every means of sealing: the verdicts must not depend on the machine."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, get_args

import pytest

from segue.domain.proof import CheckResult, CheckState
from segue.flow.proving import level_of
from segue.proof.execute import SealOptions
from segue.system.isolation.places import is_temporary
from tests.proof.projects import Checkout, Files, works
from tests.slow.proof.means_cases import CASES, Case, Link

Means = Literal["bwrap", "copy"]
MEANS: tuple[Means, ...] = get_args(Means)
HOOKS = ("PYTHONPATH", "PYTEST_ADDOPTS", "PYTEST_PLUGINS", "NODE_OPTIONS")
"""Variables that load code into programs; our own must not reach the cases."""


class Project(Checkout):
    """The repository of a case, at its base, with what the user has beside it."""

    def __init__(self, folder: Path, case: Case, options: SealOptions | None = None) -> None:
        self.case = case
        self.names = {
            "@ROOT@": str(folder / "project"),
            "@OUT@": str(folder / "outside"),
            "@HERE@": str(folder),
            "@PYTHON@": sys.executable,
            "@BIN@": str(Path(sys.executable).parent),
            "@REAL@": str(Path(sys.executable).resolve()),
            "@UID@": str(os.getuid()),
            "@HOST@": os.uname().nodename,
        }
        super().__init__(folder, case.base, options)
        for words in case.git:
            self.git(*words)
        self.base = self.git("rev-parse", "HEAD")
        self.write(case.ignored)

    def fill(self, text: str) -> str:
        """Put the names of this machine into a text."""
        for name, value in self.names.items():
            text = text.replace(name, value)
        return text

    def write(self, files: Files) -> None:
        """Write texts and links; what is there already is replaced."""
        for path, text in files.items():
            place = self.root / self.fill(path)
            if isinstance(text, Link) or place.is_symlink():
                place.unlink(missing_ok=True)
            if isinstance(text, Link):
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(self.fill(text))
            else:
                super().write({str(place): text if text is None else self.fill(text)})

    def commit(self, files: Files) -> str:
        """Commit, with what the agent does before and after that."""
        by_agent = files is self.case.change
        for words in self.case.agent_git if by_agent else ():
            self.git(*words)
        head = super().commit(files)
        self.write(self.case.later if by_agent else {})
        self.left = self.files()
        return head

    def judge(self) -> CheckResult:
        """Let the sealed check decide about the agent's change."""
        return self.check(self.case.change, [self.fill(word) for word in self.case.check])

    def files(self) -> dict[str, object]:
        """Return all that the user has in the repository, but for git's own files and Python's caches."""
        found: dict[str, object] = {}
        for folder, folders, names in os.walk(self.root):
            folders[:] = [name for name in folders if name not in (".git", "__pycache__")]
            for place in (Path(folder, name) for name in (*folders, *names)):
                mode = place.lstat().st_mode
                content = place.readlink() if place.is_symlink() else place.is_file() and place.read_bytes()
                found[str(place.relative_to(self.root))] = (mode, content)
        return found


@pytest.fixture
def folder(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A new folder where the case wants to be."""
    if missing := [program for program in case.needs if not shutil.which(program)]:
        pytest.skip(f"needs {', '.join(missing)}")
    if case.place and not os.access(case.place, os.W_OK):
        pytest.skip(f"needs a writable {case.place}")
    for name in HOOKS:
        monkeypatch.delenv(name, raising=False)
    place = Path(tempfile.mkdtemp(dir=case.place or tmp_path)).resolve() / case.inside
    place.mkdir(exist_ok=True)
    yield place
    if case.place:
        shutil.rmtree(place if not case.inside else place.parent, ignore_errors=True)


def is_believed(result: CheckResult) -> bool:
    """Return whether the work would be called PASS."""
    return result.ok and level_of([result])[0].proven


NAMED_IN_FILES = ("makefile-with-pythonpath",)
"""Cases whose Makefile names our Python, and whose command does not."""


MARKED = ("sitecustomize-beside-the-product",)
"""Marked, sent back once and at most `checked`, not refused: by its exit code alone, a check cannot tell new
settings that the work needs from some that make it blind."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("means", MEANS)
def test_verdicts_are_the_same_under_every_means(means: Means, case: Case, folder: Path) -> None:
    if not works(means):
        pytest.skip(f"{means} does not work here")
    if case.name in (*NAMED_IN_FILES, *MARKED) and means != "copy" and is_temporary(Path(sys.executable)):
        pytest.skip(
            "a private /tmp hides a Python that only files of the check name, as it does in this clone"
        )
    project = Project(folder, case, SealOptions(means=means, timeout=300))
    result = project.judge()
    seen = f"{case.why}\n{result.state} {result.seal} {result.reason} {result.weaknesses}\n{result.output}"
    if case.verdict == "honest":
        assert result.ok, seen
        assert result.state is CheckState.PASSED, seen
        # A check that does not notice sabotage of the composed tree has looked at another one.
        assert result.noticed is not False or (means, case.name) == ("copy", "script-with-absolute-paths"), (
            seen
        )
    elif case.name in MARKED:
        assert result.unsettled, seen
    else:
        assert not is_believed(result), seen
    # A copy cannot keep a program from writing to an absolute path.
    if case.verdict == "honest" or means != "copy":
        assert project.files() == project.left
