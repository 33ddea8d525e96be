"""Repeat a decisive run as the user would start it, and compare what can be seen of both from outside."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.proof import CheckState
from segue.proof.compose import Recipe
from segue.proof.decide import Decision
from segue.proof.disguise import Disguise
from segue.proof.evidence import count_passed, find_difference, names_failures
from segue.proof.report import TestOutcome
from segue.proof.runs import Observed, Runs

LONG = 30.0
"""Seconds: a command that takes longer is repeated with its deciding tests only."""
_MORE_TRIES = 2
_BASE = Recipe("base", "base")

Rerun = Callable[[Recipe, Disguise, Sequence[str]], Awaitable[Observed]]
"""Runs a command on a tree, watched or not; without words, the check's own command."""


class Agreement(Struct, frozen=True):
    """What an ordinary run says about a watched one."""

    refutes: str = ""
    """What is different every time, although it is not for the code before the task."""
    caps: str = ""
    """The same, where the code before the task had nothing to compare with."""
    doubt: str = ""
    """Why it says nothing."""


class Repetition(Struct):
    """The run of a check that is repeated as the user would start it."""

    rerun: Rerun
    argv: tuple[str, ...]
    recipe: Recipe
    """What the decisive run was made of."""
    flaky: Collection[str] = ()
    """Tests that end now in one way, now in another."""
    is_part: bool = False
    """Whether it has the deciding tests only, without being told."""
    cap: str = ""
    """Why the level is at most `checked`."""

    async def start(self, runs: Runs, wait: bool = False) -> Observed | None:
        """Run the command; None: that takes too long, or may wait until it is known which tests decide."""
        if wait or runs.new.seconds > LONG:
            return None
        return await self.rerun(self.recipe, Disguise.ORDINARY, ())

    def agrees(self, runs: Runs, ordinary: Observed | None) -> bool:
        """Return whether an ordinary run ended as the watched one did."""
        return ordinary is not None and not find_difference(runs.new, ordinary)

    async def judge(self, runs: Runs, decision: Decision, ordinary: Observed | None) -> tuple[Runs, Decision]:
        """Compare the new tests with an ordinary run of them: a program must not look who runs it."""
        if decision.state is not CheckState.PASSED:
            return runs, decision
        watched = runs.new
        if ordinary is None:
            names = watched.report.runners if watched.report else ()
            shorter = narrow(self.argv, names, decision.proved) if decision.proved else None
            if shorter is None and not self.is_part and watched.seconds > LONG:
                return runs, _add(decision, "not repeated in the ordinary way, because it takes too long")
            ordinary = await self.rerun(self.recipe, Disguise.ORDINARY, shorter or ())
            if shorter is not None or self.is_part:
                self.argv = shorter or self.argv
                watched = Observed(0, output=ordinary.output, seconds=watched.seconds)
        found = await self._compare(runs, watched, ordinary)
        self.cap = found.caps
        if found.refutes:
            reason = f"It passes where it is watched, and not in an ordinary run: {found.refutes}."
            return replace(runs, ordinary=ordinary), Decision(CheckState.REFUTED, reason)
        said = found.doubt or found.caps
        return runs, _add(decision, said) if said else decision

    def _passes_else(self, runs: Runs, ordinary: Observed) -> bool:
        """Return whether as many tests pass in an ordinary run as without those that are flaky."""
        if runs.new.report is None or ordinary.exit_code is None or ordinary.changed:
            return False
        steady = runs.new.report.ids(TestOutcome.PASSED) - set(self.flaky)
        return bool(steady) and (count_passed(ordinary.output) or 0) >= len(steady)

    async def _compare(self, runs: Runs, watched: Observed, ordinary: Observed) -> Agreement:
        """Find out where a difference comes from: surroundings, chance, or a program that looks around."""
        said = find_difference(watched, ordinary)
        if not said or (self.flaky and self._passes_else(runs, ordinary)):
            return Agreement()
        passed = count_passed(watched.output)
        fine = passed is not None and passed == count_passed(ordinary.output)
        if fine and not ordinary.changed and not names_failures(ordinary.output):
            return Agreement(doubt=f"in an ordinary run all of its tests pass, and still {said}")
        calibrated = runs.base.report is not None and bool(runs.base.report.ids(TestOutcome.PASSED))
        if calibrated and not watched.seconds > LONG:
            known = await self.rerun(_BASE, Disguise.ORDINARY, ())
            before = find_difference(runs.base, known)
            if set(ordinary.changed) <= set(known.changed):  # tests may touch their files: they always have
                ordinary = replace(ordinary, changed=())
            if not find_difference(watched, ordinary):
                return Agreement()
            if before:
                return Agreement(
                    doubt=f"it could not be repeated in the ordinary way, nor its base ({before})"
                )
        for _ in range(1 if watched.seconds > LONG else _MORE_TRIES):
            first = await self.rerun(self.recipe, Disguise.WATCHED, self.argv)
            second = await self.rerun(self.recipe, Disguise.ORDINARY, self.argv)
            if find_difference(watched, first) or not find_difference(first, second):
                return Agreement(doubt=f"in one ordinary run {said}, in others not, so something is flaky")
        if not calibrated:
            return Agreement(caps=f"it passes where it is watched, and not in an ordinary run: {said}")
        return Agreement(refutes=said)


def _add(decision: Decision, weakness: str) -> Decision:
    return replace(decision, weaknesses=(*decision.weaknesses, weakness))


def narrow(argv: Sequence[str], runners: Sequence[str], tests: Sequence[str]) -> tuple[str, ...] | None:
    """Return the command for these tests alone; None: it cannot be told to."""
    words = list(argv)
    if tuple(runners) == ("pytest",) and (at := _find(words, "pytest")) is not None:
        rest = [word for before, word in pairwise(words[at:]) if _is_option(before, word)]
        return (*words[: at + 1], *rest, *tests)
    if tuple(runners) == ("unittest",) and (at := _find(words, "unittest")) is not None:
        return (*words[: at + 1], *tests)
    if tuple(runners) == ("go test",) and words[:2] == ["go", "test"]:
        names = sorted({re.escape(test.rpartition("::")[2].partition("/")[0]) for test in tests})
        return ("go", "test", f"-run=^({'|'.join(names)})$", *words[2:])
    return None


def _is_option(before: str, word: str) -> bool:
    """Return whether a word is an option, or may be the value of one."""
    if word.startswith("-"):
        return True
    return before.startswith("-") and "=" not in before and "/" not in word and not word.endswith(".py")


def _find(words: Sequence[str], name: str) -> int | None:
    return next((at for at, word in enumerate(words) if word.rpartition("/")[2] == name), None)
