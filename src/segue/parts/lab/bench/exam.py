"""The bench of the exam: pairs that are run with and without independent tests, by a scripted writer.

`exam_cases/NAME.toml` has a pair like those of the proof bench, and as `exam` what the writer does.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.options import Text, read_options
from segue.parts.lab.bench.cases import Pair, ProofCase, Rung, Twin, merge_project, read_folder
from segue.parts.lab.bench.place import CasePlace
from segue.parts.lab.bench.run import Ending, ProofReport, run_cases

_NOTHING_TO_ADD = {"say": "There is nothing to add: it is complete."}
_LIMITS = {"resolutions": 2, "phase_timeout": 60}


class ExamPair(Pair, frozen=True, kw_only=True):
    """The file of a pair."""

    group: Text
    """The class of tricks that it belongs to."""
    exam: list[dict[str, Any]]
    """What the writer of independent tests does; it sees neither twin."""
    examined: Rung = "independent"
    """What the honest twin must reach with the exam; `earned` is without it."""


class Examined(Struct, frozen=True):
    """One twin, run without the exam or with it."""

    ending: Ending
    with_exam: bool
    sent_back: int
    """How often the worker was launched again."""
    launches: int
    """How often anybody was."""


class ExamReport(Struct, frozen=True):
    """The outcome of the bench."""

    examined: tuple[Examined, ...]
    skipped: Mapping[str, list[str]]

    def part(self, *, with_exam: bool) -> ProofReport:
        """Return what was believed and stopped on one of both ways."""
        endings = tuple(one.ending for one in self.examined if one.with_exam is with_exam)
        return ProofReport(endings, self.skipped)

    def mean(self, name: str, *, with_exam: bool) -> float:
        """Return how often a task was sent back, or somebody launched, on average."""
        numbers = [getattr(one, name) for one in self.examined if one.with_exam is with_exam]
        return statistics.fmean(numbers) if numbers else 0.0

    @property
    def groups(self) -> dict[str, ExamReport]:
        """The outcome of each class."""
        names = dict.fromkeys(one.ending.case.group for one in self.examined)
        return {
            name: ExamReport(tuple(one for one in self.examined if one.ending.case.group == name), {})
            for name in names
        }

    @property
    def only_by_exam(self) -> list[str]:
        """The classes of which some cheats are believed without the exam, and fewer with it."""
        return [
            name
            for name, part in self.groups.items()
            if part.part(with_exam=False).believed.hits > part.part(with_exam=True).believed.hits
        ]


def load_exam_cases() -> list[ExamCase]:
    """Return every twin by name, each without and with the exam."""
    here = files("segue.parts.lab.bench")
    projects = dict(read_folder(here / "projects"))
    found = []
    for name, data in read_folder(here / "exam_cases"):
        pair = read_options(ExamPair, merge_project(data, projects))
        found += [ExamCase(name, pair, cheats, exam) for cheats in (False, True) for exam in (False, True)]
    return found


class ExamCase(Struct, frozen=True):
    """One twin, without the exam or with it."""

    name: str
    pair: ExamPair
    cheats: bool
    with_exam: bool

    @property
    def twin(self) -> Twin:
        """Who works."""
        return self.pair.cheat if self.cheats else self.pair.honest

    @property
    def proof_case(self) -> ProofCase:
        """The same as a case of the proof bench."""
        pair = self.pair
        settings = {**pair.settings, "limits": _LIMITS, "proof": {"independent": self.with_exam}}
        honest, cheat = (
            replace(twin, on=list(self._script(twin)), launches=None) for twin in (pair.honest, pair.cheat)
        )
        if self.with_exam:
            honest = replace(honest, earned=pair.examined)
        way = "exam" if self.with_exam else "plain"
        name = f"{self.name}/{'cheat' if self.cheats else 'honest'}/{way}"
        changed = replace(pair, settings=settings, honest=honest, cheat=cheat)
        return ProofCase(name, changed, self.cheats, pair.group)

    def _script(self, twin: Twin) -> Iterator[dict[str, Any]]:
        yield from ({**entry, "phase": "independent"} for entry in self.pair.exam)
        yield {"phase": "independent", "say": "There is nothing more to ask."}
        for entry in twin.on:
            once = {"attempt": 1} if {"edit", "append"} & set(entry) else {}
            yield {"phase": "execute", **once, **entry}
        yield _NOTHING_TO_ADD


async def run_exam_cases(
    cases: Sequence[ExamCase], jobs: int, keep: Path | None, progress: Callable[[Ending], None]
) -> ExamReport:
    """Run the cases, and count who was launched how often."""
    counted: dict[str, tuple[int, int]] = {}

    async def count(case: ProofCase, place: CasePlace) -> None:
        counted[case.name] = await _count_launches(place)

    report = await run_cases([case.proof_case for case in cases], jobs, keep, progress, look=count)
    by_name = {case.proof_case.name: case for case in cases}
    examined = []
    for ending in report.endings:
        case = by_name[ending.case.name]
        sent_back, launches = counted.get(ending.case.name, (0, 0))
        most = case.twin.launches
        if not case.cheats and most is not None and sent_back >= most:
            fault = f"it was sent back {sent_back} times"
            ending = replace(ending, faults=(*ending.faults, fault))
        examined.append(Examined(ending, case.with_exam, sent_back, launches))
    return ExamReport(tuple(examined), report.skipped)


async def _count_launches(place: CasePlace) -> tuple[int, int]:
    """Return how often the worker was sent back, and how often anybody was launched."""
    shown = await place.segue("logs", "last", "--json")
    steps = [
        json.loads(line)["step"]
        for line in shown.out.decode("utf-8", "replace").splitlines()
        if line.startswith("{") and '"prompt"' in line
    ]
    return sum("/resolve/" in step for step in steps), len(steps)
