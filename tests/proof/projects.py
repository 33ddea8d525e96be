"""Small git repositories to check, with an agent's change on top."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pytest

from segue.domain.proof import CheckResult, CheckState, HowSettled
from segue.domain.task import TaskKind
from segue.proof.execute import SealOptions
from segue.proof.seal import Sealer
from segue.system.isolation.isolate import Isolation, Means

PYTEST = ("env", "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1", sys.executable, "-m", "pytest", "-q")
"""Without the plug-ins of this environment, which take longer to load than the tests."""
DISCOVER = (sys.executable, "-m", "unittest", "discover")
"""It starts four times as fast as pytest does."""
UNITTEST = (sys.executable, "-m", "unittest", "discover", "-s", "tests", "-t", ".")
Files = Mapping[str, str | None]
"""Texts by path; None removes a file."""

needs_sandbox = pytest.mark.skipif(
    Isolation().mounter.means is Means.NONE, reason=f"no sandbox here: {Isolation().mounter.why}"
)


def works(means: str) -> bool:
    """Return whether checks can be sealed by these means on this machine."""
    return means == "copy" or Isolation().try_means(Means(means)).means is not Means.NONE


def find_unsettled(result: CheckResult) -> list[str]:
    """Return the files whose change nothing has settled: the level is at most `checked`, and it is marked."""
    return [one.path for one in result.changed_tests if one.how is HowSettled.UNSETTLED]


def is_refused(result: CheckResult) -> bool:
    """Return whether a check says why work cannot be believed."""
    if result.state in (CheckState.FAILED, CheckState.REFUTED):
        return bool(result.reason)
    return bool(find_unsettled(result))


class Checkout:
    """A repository with a base commit; commits of an agent follow."""

    def __init__(
        self,
        folder: Path,
        base: Files,
        options: SealOptions | None = None,
        isolation: Isolation | None = None,
    ) -> None:
        self.root = folder / "project"
        self.root.mkdir()
        self.git("init", "--quiet")
        self.base = self.commit(base) if base else ""
        self.scratch = folder / "scratch"
        self.options = options or SealOptions(timeout=300)
        self.isolation = isolation

    def git(self, *args: str) -> str:
        identity = ("-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
        done = subprocess.run(
            ["git", *identity, *args], cwd=self.root, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def write(self, files: Files) -> None:
        for path, text in files.items():
            place = self.root / path
            if text is None:
                place.unlink()
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
            if text.startswith("#!"):
                place.chmod(0o755)

    def commit(self, files: Files) -> str:
        self.write(files)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", "Change")
        return self.git("rev-parse", "HEAD")

    def sealer(self) -> Sealer:
        return Sealer(self.root, self.root / ".git", self.scratch, self.options, isolation=self.isolation)

    def prepare(self) -> None:
        asyncio.run(self.sealer().prepare())

    def check(
        self,
        change: Files,
        argv: Sequence[str] = PYTEST,
        kind: TaskKind = TaskKind.BUILD,
        expected_red: Collection[str] = (),
        words: str = "",
        measured: bool = False,
    ) -> CheckResult:
        """Commit the change on top of the base and check it."""
        self.prepare()
        if self.base:
            self.git("reset", "--quiet", "--hard", self.base)
        head = self.commit(change)
        checking = self.sealer().check(
            argv, self.base, head, kind=kind, expected_red=expected_red, words=words, measured=measured
        )
        return asyncio.run(checking)

    def advance(self) -> None:
        """Make the last commit the base of the next check."""
        self.base = self.git("rev-parse", "HEAD")
