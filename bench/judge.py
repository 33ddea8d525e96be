"""How often the configured judge detects wrong work: `python -m bench.judge`.

The judge sees small pieces of work from `bench/judged`, each right once and wrong once. Each costs a request.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from segue.domain.errors import JudgeFailed, SegueError, ServiceAway
from segue.domain.proof import CheckResult
from segue.domain.task import Task
from segue.domain.verdict import Criterion, Evidence, Result
from segue.domain.workspace import split_diff
from segue.features.dataset.reports.statistics import Proportion, single_cases
from segue.ports import Judge
from segue.runtime.app import App
from segue.runtime.wiring import make_judging
from segue.system.patience import outlast
from segue.system.process.processes import Processes


class Case(Struct, frozen=True):
    """One piece of work to be judged."""

    name: str
    kind: str
    """The flaw of this case, or of its twin."""
    defective: bool
    task: Task
    evidence: Evidence


def cases() -> list[Case]:
    """Every case, the correct one before its defective twin."""
    found: list[Case] = []
    for file in sorted((Path(__file__).parent / "judged").glob("*.toml")):
        found += _twins(file.stem, tomllib.loads(file.read_text("utf-8")))
    return found


def _twins(name: str, data: dict[str, Any]) -> list[Case]:
    criteria = tuple(Criterion(item["key"], item["text"]) for item in data["task"]["criteria"])
    task = Task(name, data["task"]["title"], data["task"]["text"], criteria=criteria)
    return [
        Case(f"{name}/{twin}", data["kind"], twin == "defective", task, _work(data[twin]))
        for twin in ("correct", "defective")
    ]


def _work(data: dict[str, Any]) -> Evidence:
    paths = tuple(file.path for file in split_diff(data["diff"]))
    return Evidence(
        data["diff"],
        paths,
        msgspec.convert(data.get("checks", ()), tuple[CheckResult, ...]),
        data["summary"],
    )


BAR = 0.8
"""The share of wrong work that a judge should catch."""


class JudgedCase(Struct, frozen=True):
    """The judge's answer for a case: a result, or why there is none."""

    case: Case
    result: Result | None
    reason: str


def rate_rejected(judged: Iterable[JudgedCase], defective: bool) -> Proportion:
    """Return how much of the wrong or the right work was rejected; failures of the judge do not count."""
    answered = [one for one in judged if one.result is not None and one.case.defective is defective]
    return single_cases(sum(one.result is not Result.PASS for one in answered), len(answered))


async def judge_all(judge: Judge, repeat: int, patience: float) -> list[JudgedCase]:
    """Let the judge decide all cases; its own failures are noted, anything else ends the bench."""
    turns = asyncio.Semaphore(4)

    async def decide(case: Case) -> JudgedCase:
        async with turns:
            judged = await _decide(judge, case, patience)
        said = judged.result or "error"
        print(f"{case.name}: {said} {judged.reason[:100]}", file=sys.stderr, flush=True)
        return judged

    return await asyncio.gather(*(decide(case) for case in cases() for _ in range(repeat)))


async def _decide(judge: Judge, case: Case, patience: float) -> JudgedCase:
    try:
        verdict = await outlast(lambda: judge.judge(case.task, case.evidence), patience)
    except (JudgeFailed, ServiceAway) as error:
        return JudgedCase(case, None, error.message)
    return JudgedCase(case, verdict.result, verdict.reason)


def main() -> None:
    """Measure the judge of the user's settings."""
    parser = argparse.ArgumentParser(prog="python -m bench.judge", description=__doc__)
    parser.add_argument("--model", help="the model to measure (default: the configured one)")
    parser.add_argument("--repeat", type=int, default=1, help="how often to judge each case")
    options = parser.parse_args()
    app = App.load(Path.cwd(), None, {"judge": {"model": options.model}} if options.model else {})
    judge = make_judging("llm", app, app.services(Processes())).judge
    assert judge is not None
    patience = app.loaded.settings.limits.patience
    judged = asyncio.run(judge_all(judge, options.repeat, patience))
    for kind in dict.fromkeys(one.case.kind for one in judged):
        _show(kind, [one for one in judged if one.case.kind == kind])
    _show("all", judged)
    caught = rate_rejected(judged, True)
    low, high = caught.limits()
    met = caught.value is not None and caught.value >= BAR
    print(
        f"{low:.0%} to {high:.0%} of wrong work is caught (95 % interval)."
        f" The bar of {BAR:.0%} is {'' if met else 'not '}met as measured."
    )


def _show(kind: str, judged: Sequence[JudgedCase]) -> None:
    caught, alarms = rate_rejected(judged, True), rate_rejected(judged, False)
    failed = sum(one.result is None for one in judged)
    found = f"caught {caught.hits} of {caught.n}, false alarms {alarms.hits} of {alarms.n}"
    print(f"{kind:<24} {found}, failed {failed}")


if __name__ == "__main__":
    try:
        main()
    except SegueError as error:
        sys.exit(f"{error}\n{error.hint or ''}")
