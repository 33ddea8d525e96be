"""What runners write down or print by themselves: logs of CTest, TRX of .NET, and TAP."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from xml.etree import ElementTree

from segue.proof.report import CaseResult, Reason, Report, TestOutcome, add_case, explain, shorten
from segue.proof.runners.junit import find_written, note_written, parse_xml
from segue.proof.runners.runner import Ended, Runner, Stage
from segue.system.beneath import read_below

_LARGEST = 64 * 1024**2
_CTEST = re.compile(
    r"^\d+/\d+ Test: (?P<name>[^\n]+)$(?P<said>.*?)"
    r"^Test (?P<outcome>Passed|Failed|Not Run|Timeout|Skipped)\b",
    re.M | re.S,
)
_CTEST_OUTPUT = re.compile(r"^Output:\n-+\n(.*?)\n<end of output>", re.M | re.S)
_TRX_OUTCOMES = {"Passed": TestOutcome.PASSED, "NotExecuted": TestOutcome.SKIPPED}
_PLAN = re.compile(r"^1\.\.(\d+)\s*(?:#.*)?$", re.M)
_TAP = re.compile(
    r"^(?P<bad>not )?ok\b(?: \d+)?(?: -)? ?(?P<name>.*?)(?P<skip> *# *(?:skip|todo)\b.*)?$", re.I
)
_TAP_FILE = re.compile(r"in (?:test )?file ([^\s,]+)")
_PRINTED = "its tests are known from what it prints only"


def _cases_of_ctest(stage: Stage) -> Iterator[CaseResult]:
    for path in find_written(stage, "ctest"):
        text = read_below(stage.tree, path, _LARGEST).decode("utf-8", "replace")
        for match in _CTEST.finditer(text):
            said = _CTEST_OUTPUT.search(match["said"])
            outcome = TestOutcome.PASSED if match["outcome"] == "Passed" else TestOutcome.FAILED
            outcome = TestOutcome.SKIPPED if match["outcome"] == "Skipped" else outcome
            failed = outcome is TestOutcome.FAILED
            reason = Reason.ASSERTION if failed and match["outcome"] == "Failed" else None
            reason = reason or (Reason.OTHER if failed else None)
            yield CaseResult(match["name"].strip(), outcome, "", reason, shorten(said[1] if said else ""))


def _cases_of_trx(stage: Stage) -> Iterator[CaseResult]:
    for path in find_written(stage, "trx"):
        root = parse_xml(stage, path)
        for one in root.iter() if root is not None else ():
            if one.tag.rpartition("}")[2] == "UnitTestResult":
                yield _trx_case(one)


def _trx_case(result: ElementTree.Element) -> CaseResult:
    outcome = _TRX_OUTCOMES.get(result.get("outcome", ""), TestOutcome.FAILED)
    said = "\n".join(
        part.text or "" for part in result.iter() if part.tag.endswith(("Message", "StackTrace"))
    )
    reason = None
    if outcome is TestOutcome.FAILED:
        name = "AssertionError" if "Assert" in said else said.partition(":")[0].strip().rpartition(".")[2]
        reason = explain(name, said)
    return CaseResult(result.get("testName", ""), outcome, "", reason, shorten(said))


def read_tap(output: str, exit_code: int | None) -> Report | None:
    """Return what a command printed in the Test Anything Protocol; None unless all of it fits together."""
    plans = [int(found) for found in _PLAN.findall(output)]
    tests: dict[str, CaseResult] = {}
    seen: Counter[str] = Counter()
    last, said = None, list[str]()
    for line in output.splitlines():
        match = _TAP.match(line)
        if match is None:
            said += [line[1:].strip()] if line.startswith("#") else []
            continue
        _explain_tap(tests, last, said)
        name = match["name"].strip()
        seen[name] += 1
        last, said = f"{name} #{seen[name]}" if seen[name] > 1 else name, []
        outcome = TestOutcome.FAILED if match["bad"] else TestOutcome.PASSED
        tests[last] = CaseResult(last, TestOutcome.SKIPPED if match["skip"] else outcome)
    _explain_tap(tests, last, said)
    failed = any(case.outcome is TestOutcome.FAILED for case in tests.values())
    if not tests or sum(plans) != len(tests) or failed is (exit_code == 0) or exit_code is None:
        return None
    return Report(tests, len(plans), runners=("TAP",), weaknesses=(_PRINTED,))


def _explain_tap(tests: dict[str, CaseResult], key: str | None, said: list[str]) -> None:
    if key is None or tests[key].outcome is not TestOutcome.FAILED:
        return
    message = "\n".join(said)
    missing = re.search(r"command not found|: not found|is not defined|undefined", message)
    file = _TAP_FILE.search(message)
    reason = Reason.MISSING if missing else Reason.ASSERTION
    tests[key] = CaseResult(key, TestOutcome.FAILED, file[1] if file else "", reason, shorten(message))


def _report(cases: Iterable[CaseResult], runner: str) -> Report | None:
    tests: dict[str, CaseResult] = {}
    for case in cases:
        add_case(tests, case)
    return Report(tests, 1, runners=(runner,)) if tests else None


def _arm_dotnet(stage: Stage) -> Mapping[str, str]:
    note_written(stage, "trx", ".trx")
    return {"VSTestLogger": "trx"}


def _arm_ctest(stage: Stage) -> Mapping[str, str]:
    note_written(stage, "ctest", "LastTest.log")
    return {}


CTEST = Runner(
    "ctest",
    lambda project: any(path.endswith("CMakeLists.txt") for path in project.paths),
    _arm_ctest,
    lambda stage, _: _report(_cases_of_ctest(stage), "ctest"),
)
DOTNET = Runner(
    "dotnet test",
    lambda project: any(path.endswith(("proj", ".sln", ".slnx")) for path in project.paths),
    _arm_dotnet,
    lambda stage, _: _report(_cases_of_trx(stage), "dotnet test"),
)
"""MSBuild takes properties from variables."""


def _read_tap(stage: Stage, ended: Ended) -> Report | None:  # noqa: ARG001 - all of it was printed
    return read_tap(ended.out, ended.exit_code)


TAP = Runner("TAP", lambda _: True, lambda _: {}, _read_tap)
"""bats, prove and others print it; no variable makes them write it somewhere else."""
