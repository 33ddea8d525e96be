"""jest, vitest, mocha and node:test: one hook that NODE_OPTIONS makes every Node process load.

A canary is part of a test file, so it shares the runner, the imports and the assertions with its tests.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from segue.proof.report import Canary, CaseResult, Report, TestOutcome, add_case, explain, shorten
from segue.proof.runners.runner import Runner, Stage, copy_hook, place_hook
from segue.system.beneath import append_below, read_below

_LARGEST = 64 * 1024**2
_ERROR = re.compile(r"^\s*(?:\[?[\w$]+: )?([A-Za-z_$]*(?:Error|Exception|Failed|Violation))\b", re.M)
_ABSENT = re.compile(
    r"Cannot find (?:module|package)|Failed to (?:resolve import|load)|does not provide an export"
    r"|Named export '[^']*' not found"
)
_SYNTAX = re.compile(r"SyntaxError|Transform failed|Unexpected token")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_FRAME = re.compile(r"(?:\(|\bat |\s|file://)(/[^\s():]+):\d+")
ENDINGS = (".js", ".jsx", ".cjs", ".mjs", ".ts", ".tsx", ".mts", ".cts")
_NO_TESTS = re.compile(r"(?:.*/)?(?:__fixtures__|fixtures?|testdata|__snapshots__|__mocks__|node_modules)/.*")
_HAS_TESTS = re.compile(r"\b(?:test|it)\s*(?:\.\w+\s*)*[(<`]")
_NODE_TEST = re.compile(r"""['"]node:test['"]""")
_NODE_OPTIONS = re.compile(r"""\bNODE_OPTIONS=("[^"]*"|'[^']*'|\S*)""")
_TOKEN = re.compile(r"\bs[0-9a-f]{12}\b")


class SuiteTest(msgspec.Struct, rename="camel"):
    """One test in the JSON of jest and vitest."""

    title: str
    status: str
    ancestor_titles: list[str] = []
    failure_messages: list[str] | None = None


class Suite(msgspec.Struct, rename="camel"):
    """One test file in the JSON of jest and vitest."""

    name: str
    assertion_results: list[SuiteTest] = []
    status: str = ""
    message: str = ""


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


def _read_suites(data: bytes) -> Iterator[NodeCase]:
    """Yield the tests in what jest or vitest wrote."""
    for suite in msgspec.json.decode(data, type=Suites).test_results:
        failed = False
        for test in suite.assertion_results:
            outcome = {"passed": TestOutcome.PASSED, "failed": TestOutcome.FAILED}.get(test.status)
            message = _COLOURS.sub("", "\n".join(test.failure_messages or ()))
            name = "AssertionError" if "expect(" in message[:200] else _name_error(message)
            names = [*test.ancestor_titles, test.title]
            yield NodeCase(suite.name, names, outcome or TestOutcome.SKIPPED, name, message)
            failed = failed or outcome is TestOutcome.FAILED
        if suite.status == "failed" and not failed:
            message = _COLOURS.sub("", suite.message)
            yield NodeCase(
                suite.name, [], TestOutcome.FAILED, _name_load_error(message), message, whole_file=True
            )


def _read_cases(data: bytes) -> Iterator[NodeCase]:
    """Yield the tests in what one of our reporters wrote."""
    yield from msgspec.json.decode(data, type=NodeCases).tests


def _name_error(message: str) -> str:
    match = _ERROR.search(message)
    return match[1] if match else "Error"


def _name_load_error(message: str) -> str:
    """Return why a file could not be loaded: a missing module is a missing name."""
    if _ABSENT.search(message):
        return "ModuleNotFoundError"
    return "SyntaxError" if _SYNTAX.search(message) else _name_error(message)


def _read(stage: Stage, runner: str, decode: Callable[[bytes], Iterable[NodeCase]]) -> Report | None:
    """Return the report of all processes of one runner; None if none has finished."""
    tests: dict[str, CaseResult] = {}
    canaries: dict[str, Canary] = {}
    ran, files = set[str](), 0
    prefix = runner.partition(":")[0]
    for file in sorted((stage.reports / f"{stage.token}n").glob(f"{prefix}-{stage.token}-*.json")):
        # The check can write here, so anything may be found.
        with contextlib.suppress(ValueError, msgspec.DecodeError):
            cases = list(decode(read_below(stage.reports, file, _LARGEST)))
            files += 1
            seen = Counter[str]()
            for case in cases:
                path = _relative(case.file, stage.root)
                if stage.token in case.names:
                    canaries[path] = _judge(case, stage.token, canaries.get(path))
                elif not case.inner and (not case.suite or case.outcome is TestOutcome.FAILED):
                    result = _result(stage, case, path, seen)
                    ran |= (
                        {path} if not result.whole_file and case.outcome is not TestOutcome.SKIPPED else set()
                    )
                    add_case(tests, result)
    return Report(tests, files, _join(stage, canaries, ran), (runner,) if tests else ()) if files else None


def _judge(case: NodeCase, token: str, earlier: Canary | None) -> Canary:
    if case.outcome is TestOutcome.SKIPPED:
        return earlier or Canary.ABSENT
    failed = case.outcome is TestOutcome.FAILED and token in case.message
    return Canary.FAILED if failed and earlier is not Canary.SILENT else Canary.SILENT


def _join(stage: Stage, canaries: Mapping[str, Canary], ran: set[str]) -> Canary:
    """Return what the canaries of all files say: each file that has one and ran tests must have run it."""
    placed = json.loads((stage.hooks / f"{stage.token}n.json").read_text())["placed"]
    expected = ran.intersection(placed)
    if Canary.SILENT in canaries.values():
        return Canary.SILENT
    is_sure = expected and all(canaries.get(path) is Canary.FAILED for path in expected)
    return Canary.FAILED if is_sure else Canary.ABSENT


def _result(stage: Stage, case: NodeCase, path: str, seen: Counter[str]) -> CaseResult:
    names = [name for name in case.names if name]
    if len(names) == 1 and _relative(names[0], stage.root) == path:
        names = []  # node:test reports a file that has no tests, or ended early, as a test
    ident = "::".join(filter(None, (path, " > ".join(names))))
    seen[ident] += 1
    ident += f" #{seen[ident]}" if seen[ident] > 1 and names else ""
    is_file = case.whole_file or (not names and case.outcome is TestOutcome.FAILED)
    reason = None
    if case.outcome is TestOutcome.FAILED:
        frames = [_relative(name, stage.root) for name in _FRAME.findall(case.message)]
        frames = [name for name in frames if "node_modules/" not in name and not name.startswith("/")]
        name = _name_load_error(case.message) if is_file and not case.whole_file else case.name
        reason = explain(name, case.message, frames, path)
    return CaseResult(ident, case.outcome, path, reason, shorten(case.message), is_file)


def _relative(file: str, root: Path) -> str:
    text = file.removeprefix("file://")
    path = os.path.normpath(text if text.startswith("/") else root / text) if text else ""
    return path.removeprefix(f"{root}{os.sep}")


def _place_canaries(stage: Stage) -> tuple[list[str], list[str]]:
    """Append a canary to each test file; return these files, and the files that use node:test."""
    placed, scripts = [], []
    for path in stage.tests:
        file = stage.tree / path
        is_test = path.endswith(ENDINGS) and not path.endswith(".d.ts") and not _NO_TESTS.fullmatch(path)
        if not is_test or file.is_symlink() or not file.is_file():
            continue
        text = read_below(stage.tree, file).decode("utf-8", "surrogateescape")
        if _NODE_TEST.search(text):
            scripts.append(str(stage.root / path))
        if _HAS_TESTS.search(text):
            append_below(stage.tree, file, _make_canary(text, stage.token))
            placed.append(path)
    return placed, scripts


def _make_canary(text: str, token: str) -> str:
    """Return a test that must fail: it passes if an assertion that the file uses does not fail any more."""
    tries = [f"() => assert.{name}(1, 2)" for name in re.findall(r"\bassert\.((?!not)\w*[eE]qual)\(", text)]
    tries += ["() => assert.ok(false)"] if re.search(r"\bassert\.ok\(", text) else []
    if re.search(r"\bexpect\(", text):
        tries += [
            f"() => expect(1).{name}(2)"
            for name in re.findall(r"\.(toBe|to(?:Strict)?Equal|to\.equal)\(", text)
        ]
    body = (
        f"for (const must of [{', '.join(dict.fromkeys(tries))}]) {{ let quiet = true; "
        f"try {{ must(); }} catch {{ quiet = false; }} if (quiet) return; }} "
        f'throw new Error("{token}");'
    )
    find = 'typeof test === "function" ? test : typeof it === "function" ? it : null'
    # In one line, because the comment turns off TypeScript for the next line alone.
    added = f'(() => {{ const add = {find}; if (add) add("{token}", () => {{ {body} }}); }})();'
    return f"\n;// @ts-ignore\n{added}\n"


def _arm(stage: Stage) -> Mapping[str, str]:
    """Copy the hook and its reporters, and append canaries, once for all of these runners."""
    name = f"{stage.token}n"
    quoted = str(stage.hooks / f"{name}.cjs").replace("\\", "\\\\").replace('"', '\\"')
    option = f'--require "{quoted}"'
    if not (stage.hooks / f"{name}.cjs").exists():
        placed, scripts = _place_canaries(stage)
        place_hook(stage, "node_hook.cjs", f"{name}.cjs", {"scripts": scripts, "placed": placed})
        copy_hook(stage, "node_reporter.cjs", f"{name}-node.cjs")
        copy_hook(stage, "mocha_reporter.cjs", f"{name}-mocha.cjs")
        if stage.tree != stage.root:
            _extend_scripts(stage.tree, option)
    return {"NODE_OPTIONS": option, "npm_config_update_notifier": "false", "npm_config_fetch_retries": "0"}


def _extend_scripts(tree: Path, option: str) -> None:
    """Add the option where a script of the tree's package.json sets NODE_OPTIONS itself."""

    def extend(match: re.Match[str]) -> str:
        value = match[1].strip("'\"")
        return f"NODE_OPTIONS='{value} {option}'"

    for path in tree.rglob("package.json"):
        if "node_modules" in path.parts or path.is_symlink():
            continue
        text = read_below(tree, path).decode("utf-8", "surrogateescape")
        with contextlib.suppress(ValueError, AttributeError):
            content = json.loads(text) if "NODE_OPTIONS=" in text else {}
            scripts = {
                name: _NODE_OPTIONS.sub(extend, line) for name, line in content.get("scripts", {}).items()
            }
            if scripts:
                path.write_text(json.dumps({**content, "scripts": scripts}), "utf-8", "surrogateescape")


def _make(name: str, decode: Callable[[bytes], Iterable[NodeCase]]) -> Runner:
    return Runner(
        name,
        lambda project: any(path.endswith((*ENDINGS, "package.json")) for path in project.paths),
        _arm,
        lambda stage, _: _read(stage, name, decode),
        lambda text: "\n".join(line for line in text.splitlines() if not _TOKEN.search(line)),
    )


NODE_RUNNERS = (
    _make("jest", _read_suites),
    _make("vitest", _read_suites),
    _make("mocha", _read_cases),
    _make("node:test", _read_cases),
)
"""The hook adds options to the command line, also behind npm, npx, pnpm and make."""
