"""jest, vitest, mocha and node:test: one hook that NODE_OPTIONS makes every Node process load.

A canary is part of a test file, so it shares the runner, the imports and the assertions with its tests.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from segue.proof.report import Canary, CaseResult, Report, TestOutcome, add_case, explain, shorten
from segue.proof.runners.runner import Project, Runner, Stage, copy_hook, place_hook
from segue.system.beneath import append_below, read_below

_LARGEST = 64 * 1024**2
_ERROR = re.compile(r"^\s*(?:\[?[\w$]+: )?([A-Za-z_$]*(?:Error|Exception|Failed|Violation))\b", re.M)
_ABSENT = re.compile(
    r"Cannot find (?:module|package)|Failed to (?:resolve import|load)|does not provide an export"
    r"|Named export '[^']*' not found"
)
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_FRAME = re.compile(r"(?:\(|\bat |\s|file://)(/[^\s():]+):\d+")


class Suite(msgspec.Struct, rename="camel"):
    """One test file in the JSON of jest and vitest."""

    name: str
    assertion_results: list[SuiteTest] = []
    status: str = ""
    message: str = ""


class SuiteTest(msgspec.Struct, rename="camel"):
    """One test in the JSON of jest and vitest."""

    title: str
    status: str
    ancestor_titles: list[str] = []
    failure_messages: list[str] | None = None
    failure_details: list[msgspec.Raw] | None = None


class Suites(msgspec.Struct, rename="camel"):
    """The JSON of jest and vitest."""

    test_results: list[Suite]


class NodeCase(msgspec.Struct):
    """One test, as our reporters for mocha and node:test write it down."""

    file: str
    names: list[str]
    outcome: TestOutcome
    name: str = ""
    """The exception's name."""
    message: str = ""
    suite: bool = False
    inner: bool = False
    """It failed because a test within it failed."""
    whole_file: bool = False


class NodeCases(msgspec.Struct):
    """What our reporters for mocha and node:test write."""

    tests: list[NodeCase]


def read_suites(stage: Stage, runner: str) -> Report | None:
    """Return what jest or vitest wrote."""
    tests: list[NodeCase] = []
    files = 0
    for data in _written(stage, runner):
        with contextlib.suppress(ValueError, msgspec.DecodeError):
            found = msgspec.json.decode(data, type=Suites)
            files += 1
            tests += [case for suite in found.test_results for case in _number(_suite_cases(suite))]
    return _report(stage, runner, tests, files)


def read_cases(stage: Stage, runner: str) -> Report | None:
    """Return what one of our reporters wrote."""
    tests: list[NodeCase] = []
    files = 0
    for data in _written(stage, runner):
        with contextlib.suppress(ValueError, msgspec.DecodeError):
            tests += _number(msgspec.json.decode(data, type=NodeCases).tests)
            files += 1
    return _report(stage, runner, tests, files)


def _written(stage: Stage, runner: str) -> Iterable[bytes]:
    prefix = runner.partition(":")[0]
    # The check can write here, so anything may be found.
    for path in sorted((stage.reports / f"{stage.token}n").glob(f"{prefix}-{stage.token}-*.json")):
        if data := read_below(stage.reports, path, _LARGEST):
            yield data


def _number(cases: Iterable[NodeCase]) -> Iterable[NodeCase]:
    """Yield the tests of one file or run; those that have the same name get a number."""
    seen: Counter[tuple[str, ...]] = Counter()
    for case in cases:
        key = (case.file, *case.names)
        seen[key] += 1
        if seen[key] > 1 and case.names:
            case.names[-1] += f" #{seen[key]}"
        yield case


def _suite_cases(suite: Suite) -> Iterable[NodeCase]:
    ran = False
    for test in suite.assertion_results:
        outcome = {"passed": TestOutcome.PASSED, "failed": TestOutcome.FAILED}.get(test.status)
        message = _COLOURS.sub("", "\n".join(test.failure_messages or ()))
        matcher = any(b'"matcherResult"' in bytes(one) for one in test.failure_details or ())
        name = "AssertionError" if matcher or "expect(" in message[:200] else _error_in(message)
        names = [*test.ancestor_titles, test.title]
        yield NodeCase(suite.name, names, outcome or TestOutcome.SKIPPED, name, message)
        ran = ran or outcome is TestOutcome.FAILED
    if suite.status == "failed" and not ran:
        message = _COLOURS.sub("", suite.message)
        yield NodeCase(suite.name, [], TestOutcome.FAILED, _load_error(message), message, whole_file=True)


def _error_in(message: str) -> str:
    match = _ERROR.search(message)
    return match[1] if match else "Error"


def _load_error(message: str) -> str:
    """Return why a file could not be loaded: a missing module is a missing name."""
    if _ABSENT.search(message):
        return "ModuleNotFoundError"
    return (
        "SyntaxError"
        if re.search(r"SyntaxError|Transform failed|Unexpected token", message)
        else _error_in(message)
    )


def _report(stage: Stage, runner: str, cases: list[NodeCase], files: int) -> Report | None:
    if not files:
        return None
    tests: dict[str, CaseResult] = {}
    canaries: dict[str, Canary] = {}
    ran: set[str] = set()
    for case in cases:
        path = _relative(case.file, stage.root)
        if stage.token in case.names:
            canaries[path] = _judge(case, stage.token, canaries.get(path))
            continue
        if case.inner or (case.suite and case.outcome is not TestOutcome.FAILED):
            continue
        result = _result(stage, case, path)
        if not result.whole_file and case.outcome is not TestOutcome.SKIPPED:
            ran.add(path)
        add_case(tests, result)
    return Report(tests, files, _joined(stage, canaries, ran), (runner,) if tests else ())


def _judge(case: NodeCase, token: str, known: Canary | None) -> Canary:
    if case.outcome is TestOutcome.SKIPPED:
        return known or Canary.ABSENT
    if case.outcome is TestOutcome.FAILED and token in case.message and known is not Canary.SILENT:
        return Canary.FAILED
    return Canary.SILENT


def _joined(stage: Stage, canaries: Mapping[str, Canary], ran: set[str]) -> Canary:
    """Return what the canaries of all files say: each file that has one and ran tests must have run it."""
    if Canary.SILENT in canaries.values():
        return Canary.SILENT
    known = json.loads((stage.hooks / f"{stage.token}n.json").read_text())
    expected = ran & set(known["placed"])
    if not expected or any(canaries.get(path) is not Canary.FAILED for path in expected):
        return Canary.ABSENT
    return Canary.FAILED


def _result(stage: Stage, case: NodeCase, path: str) -> CaseResult:
    names = [name for name in case.names if name]
    if len(names) == 1 and _relative(names[0], stage.root) == path:
        names = []  # node:test reports a file that has no tests, or ended early, as a test
    ident = "::".join(filter(None, (path, " > ".join(names))))
    whole = case.whole_file or (not names and case.outcome is TestOutcome.FAILED)
    reason = None
    if case.outcome is TestOutcome.FAILED:
        frames = [_relative(name, stage.root) for name in _FRAME.findall(case.message)]
        frames = [name for name in frames if "node_modules/" not in name and not name.startswith("/")]
        name = _load_error(case.message) if whole and not case.whole_file else case.name
        reason = explain(name, case.message, frames, path)
    return CaseResult(ident, case.outcome, path, reason, shorten(case.message), whole)


def _relative(file: str, root: Path) -> str:
    text = file.removeprefix("file://")
    if not text:
        return ""
    path = os.path.normpath(text if text.startswith("/") else root / text)
    return path.removeprefix(f"{root}{os.sep}")


ENDINGS = (".js", ".jsx", ".cjs", ".mjs", ".ts", ".tsx", ".mts", ".cts")
_NO_TESTS = re.compile(r"(?:.*/)?(?:__fixtures__|fixtures?|testdata|__snapshots__|__mocks__|node_modules)/.*")
_HAS_TESTS = re.compile(r"\b(?:test|it)\s*(?:\.\w+\s*)*[(<`]")
_NODE_TEST = re.compile(r"""['"]node:test['"]""")
_NAMES = re.compile(r"""(?:import\s*\{([^}]*)\}\s*from|\{([^}]*)\}\s*=\s*require\()\s*['"](?:node:)?assert""")

_ASSERT = {
    "ok": "(false)",
    "equal": "(1, 2)",
    "strictEqual": "(1, 2)",
    "deepEqual": "([1], [2])",
    "deepStrictEqual": "([1], [2])",
    "notEqual": "(1, 1)",
    "notStrictEqual": "(1, 1)",
    "throws": "(() => {})",
    "match": "('a', /b/)",
    "isTrue": "(false)",
    "isFalse": "(true)",
}
"""Calls that must throw, by the method of `assert` that a test file uses."""
_VALUE = re.compile(r"""[(,:\[]\s*(\d+(?:\.\d+)?|"[^"\\\n]*"|'[^'\\\n]*')(?=\s*[)\],}])""")
_WRONG = ("0", "null", '"?"')
_MOST_VALUES = 20
_EXPECT = {
    "toBe": "(1).toBe(2)",
    "toEqual": "([1]).toEqual([2])",
    "toStrictEqual": "([1]).toStrictEqual([2])",
    "toMatchObject": "({ a: 1 }).toMatchObject({ a: 2 })",
    "toBeTruthy": "(0).toBeTruthy()",
    "toBeFalsy": "(1).toBeFalsy()",
    "toBeNull": "(1).toBeNull()",
    "toBeUndefined": "(1).toBeUndefined()",
    "toBeDefined": "(undefined).toBeDefined()",
    "toContain": "([1]).toContain(2)",
    "toHaveLength": "([1]).toHaveLength(2)",
    "toMatch": "('a').toMatch(/b/)",
    "toThrow": "(() => {}).toThrow()",
    "toBeCloseTo": "(1).toBeCloseTo(2)",
    "toBeGreaterThan": "(1).toBeGreaterThan(2)",
    "toBeLessThan": "(2).toBeLessThan(1)",
    "equal": "(1).to.equal(2)",
    "eql": "([1]).to.eql([2])",
    "true": "(false).to.be.true",
    "false": "(true).to.be.false",
}


def place_canaries(stage: Stage) -> tuple[list[str], list[str]]:
    """Append a canary to each test file; return these files, and the files that use node:test."""
    placed, scripts = [], []
    for path in stage.tests:
        if not path.endswith(ENDINGS) or path.endswith(".d.ts") or _NO_TESTS.fullmatch(path):
            continue
        file = stage.tree / path
        if file.is_symlink() or not file.is_file():
            continue
        text = read_below(stage.tree, file).decode("utf-8", "surrogateescape")
        if _NODE_TEST.search(text):
            scripts.append(str(stage.root / path))
        if _HAS_TESTS.search(text):
            append_below(stage.tree, file, canary(text, stage.token))
            placed.append(path)
    return placed, scripts


def canary(text: str, token: str) -> str:
    """Return a test that must fail: it passes if an assertion that the file uses does not fail any more."""
    used = [
        f"() => assert.{name}{call}"
        for name, call in _ASSERT.items()
        if re.search(rf"\bassert\.{name}\(", text)
    ]
    used += [f"() => {name}{_ASSERT[name]}" for name in _imported(text) if name in _ASSERT]
    used += [f"() => {call}" for call in _with_values(text)]
    if re.search(r"\bassert\(", text):
        used.append("() => assert(false)")
    if re.search(r"\bexpect\(", text):
        used += [f"() => expect{call}" for name, call in _EXPECT.items() if re.search(rf"\.{name}\b", text)]
    tries = ", ".join(used)
    body = (
        f"for (const must of [{tries}]) {{ let quiet = true; try {{ must(); }} catch {{ quiet = false; }}"
        f' if (quiet) return; }} throw new Error("{token}");'
    )
    find = 'typeof test === "function" ? test : typeof it === "function" ? it : null'
    # In one line, because the comment turns off TypeScript for the next line alone.
    added = f'(() => {{ const add = {find}; if (add) add("{token}", () => {{ {body} }}); }})();'
    return f"\n;// @ts-ignore\n{added}\n"


def _with_values(text: str) -> Iterable[str]:
    """Yield comparisons that must throw, with the values that the file itself compares with."""
    values = [value for value in dict.fromkeys(_VALUE.findall(text)) if value not in (*_WRONG, "'?'")]
    for value, wrong in ((value, wrong) for value in values[:_MOST_VALUES] for wrong in _WRONG):
        for name in ("strictEqual", "deepStrictEqual", "equal", "deepEqual"):
            # Without `strict`, 0 is equal to some texts.
            is_sure = "trict" in name or wrong != "0"
            if is_sure and re.search(rf"\bassert\.{name}\(", text):
                yield f"assert.{name}({wrong}, {value})"
        for name in ("toBe", "toEqual", "toStrictEqual"):
            if re.search(rf"\bexpect\(.*\.{name}\(", text):
                yield f"expect({wrong}).{name}({value})"


def _imported(text: str) -> list[str]:
    found = []
    for match in _NAMES.finditer(text):
        found += [name.strip() for name in (match[1] or match[2]).split(",")]
    return found


_SET = re.compile(r"""\bNODE_OPTIONS=("[^"]*"|'[^']*'|\S*)""")
_TOKEN = re.compile(r"\bs[0-9a-f]{12}\b")


def _applies(project: Project) -> bool:
    """Return whether the project may start Node."""
    return any(path.endswith((*ENDINGS, "package.json")) for path in project.paths)


def _clean(text: str) -> str:
    """Return the output without the lines that name a canary."""
    return "\n".join(line for line in text.splitlines() if not _TOKEN.search(line))


def _arm(stage: Stage) -> Mapping[str, str]:
    """Copy the hook and its reporters, and append canaries, once for all of these runners."""
    name = f"{stage.token}n"
    quoted = str(stage.hooks / f"{name}.cjs").replace("\\", "\\\\").replace('"', '\\"')
    option = f'--require "{quoted}"'
    if not (stage.hooks / f"{name}.cjs").exists():
        placed, scripts = place_canaries(stage)
        place_hook(stage, "node_hook.cjs", f"{name}.cjs", {"scripts": scripts, "placed": placed})
        copy_hook(stage, "node_reporter.cjs", f"{name}-node.cjs")
        copy_hook(stage, "mocha_reporter.cjs", f"{name}-mocha.cjs")
        if stage.tree != stage.root:
            _keep_in_scripts(stage.tree, option)
    return {"NODE_OPTIONS": option, "npm_config_update_notifier": "false", "npm_config_fetch_retries": "0"}


def _keep_in_scripts(tree: Path, option: str) -> None:
    """Add the option where a script of the tree's package.json sets NODE_OPTIONS itself."""
    for path in tree.rglob("package.json"):
        if "node_modules" in path.parts or path.is_symlink():
            continue
        text = read_below(tree, path).decode("utf-8", "surrogateescape")
        if "NODE_OPTIONS=" in text:
            with contextlib.suppress(ValueError, AttributeError):
                content = json.loads(text)
                content["scripts"] = {
                    name: _SET.sub(lambda found: _add(found, option), script)
                    for name, script in content["scripts"].items()
                }
                path.write_text(json.dumps(content, indent=2), "utf-8", "surrogateescape")


def _add(found: re.Match[str], option: str) -> str:
    value = found[1].strip("'\"")
    return f"NODE_OPTIONS='{value} {option}'"


def _make(name: str, read: Callable[[Stage, str], Report | None]) -> Runner:
    return Runner(name, _applies, _arm, lambda stage, _: read(stage, name), _clean)


NODE_RUNNERS = (
    _make("jest", read_suites),
    _make("vitest", read_suites),
    _make("mocha", read_cases),
    _make("node:test", read_cases),
)
"""The hook adds options to the command line, also behind npm, npx, pnpm and make."""
