"""go test: a script that runs the test binaries, which `-exec` in GOFLAGS asks for."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from segue.proof.report import Canary, CaseResult, Reason, Report, TestOutcome, join_canaries, shorten
from segue.proof.runners.runner import Ended, Project, Runner, Stage, fill_hook, read_texts
from segue.system.beneath import append_below, read_below

_RUN = re.compile(r"=== (?:RUN|CONT|NAME|PAUSE)\s+(\S+)$")
_END = re.compile(r"--- (PASS|FAIL|SKIP): (\S+) \(")
_OUTCOMES = {"PASS": TestOutcome.PASSED, "FAIL": TestOutcome.FAILED, "SKIP": TestOutcome.SKIPPED}
_NOT_BUILT = re.compile(r"^FAIL\s+(\S+) \[(?:build|setup) failed\]$", re.M)
_NO_TESTS = re.compile(r"\[no test files\]$|^no test files$", re.M)
_MISSING = re.compile(
    r"undefined: |undefined \(type|unknown field|(?:not enough|too many) (?:arguments|return values)"
    r"|is not in (?:GOROOT|std)|no required module provides|cannot find (?:package|module)|not declared by"
)
_SYNTAX = re.compile(r"syntax error|expected '")
_PACKAGE = re.compile(r"^package\s+(\w+)", re.M)
_TESTING = re.compile(r"^(?:import)?\s*\"testing\"\s*$", re.M)
_MODULE = re.compile(r"^module\s+\"?([^\s\"]+)", re.M)
_FUNCTION = re.compile(r"^func (Test\w*|Example\w*|Fuzz\w*)\(", re.M)
_PASSED_ON = ("GOPATH", "GOMODCACHE", "GOROOT", "CGO_ENABLED")
_RUNNER = "go test"


def _applies(project: Project) -> bool:
    """Return whether there is any Go."""
    return any(path.endswith((".go", "go.mod")) for path in project.paths)


def _arm(stage: Stage) -> Mapping[str, str]:
    """Copy the script, and add a canary to each package that has tests."""
    name = f"Test_{stage.token}"
    # In place, the tests are gone again when the report is read.
    places, wanted = _places(stage), stage.purpose.wanted
    (stage.hooks / f"{stage.token}g.json").write_bytes(msgspec.json.encode(places))
    for path in _last_files(stage):
        canary = f'\nfunc {name}(t *testing.T) {{ t.Fatal("{stage.token}") }}\n'
        append_below(stage.tree, stage.tree / path, canary)
    words = {"TOKEN_CANARY": name, "BLIND": str(int(stage.purpose.blind))}
    hook = fill_hook(stage, "go_exec.sh", f"{stage.token}g.sh", words)
    names = {key.rpartition("::")[2].partition("/")[0] for key in wanted if "::" in key}
    names |= {name for own in places.values() for name, path in own.items() if path in wanted}
    only = f"-run=^({'|'.join(sorted(names))})$ " if names else ""  # the script adds the canary
    flag = f"-exec={hook}" if " " not in str(hook) else f"\"-exec='{hook}'\""
    known = {key: value for key in _PASSED_ON if (value := os.environ.get(key))}
    return known | {
        "GOFLAGS": f"-count=1 {only}{flag}",
        "GOCACHE": str(stage.reports / "go-build"),
        "GOENV": "off",
        "GOPROXY": "off",
        "GOTOOLCHAIN": "local",
    }


def _read(stage: Stage, ended: Ended) -> Report | None:
    """Return what the binaries printed, and which packages could not be built."""
    tests: dict[str, CaseResult] = {}
    canaries: list[Canary] = []
    files = 0
    places = msgspec.json.decode(
        (stage.hooks / f"{stage.token}g.json").read_bytes(), type=dict[str, dict[str, str]]
    )
    for text in read_texts(stage, f"{stage.token}g"):
        folder, _, output = text.partition("\n")
        package = stage.relative(folder)
        found, finished = _cases(output, package, places.get(package, {}))
        files += finished
        canary = found.pop("::".join(filter(None, (package, f"Test_{stage.token}"))), None)
        canaries += [_judge(canary, stage.token)] if found else []
        tests |= found
    for case in _not_built(stage, f"{ended.out}\n{ended.err}"):
        tests[case.id] = case
    if not tests and not files and not _NO_TESTS.search(ended.out):
        return None
    return Report(tests, files, join_canaries(canaries), (_RUNNER,) if tests else ())


def _last_files(stage: Stage) -> Iterable[str]:
    """Return a file of each package that has tests: the one whose tests run last."""
    found: dict[str, tuple[bool, str]] = {}
    for path in stage.tests:
        if not path.endswith("_test.go") or "/testdata/" in f"/{path}" or (stage.tree / path).is_symlink():
            continue
        text = _text(stage, path)
        package = _PACKAGE.search(text)
        if package and _TESTING.search(text) and _FUNCTION.search(text):
            folder = path.rpartition("/")[0]
            found[folder] = max(found.get(folder, (False, "")), (package[1].endswith("_test"), path))
    return [path for _, path in found.values()]


def _places(stage: Stage) -> dict[str, dict[str, str]]:
    """Return the file of each test, by its package's folder and its name."""
    found: dict[str, dict[str, str]] = {}
    for path in stage.tests:
        if path.endswith("_test.go"):
            folder = path.rpartition("/")[0]
            for name in _FUNCTION.findall(_text(stage, path)):
                found.setdefault(folder, {}).setdefault(name, path)
    return found


def _text(stage: Stage, path: str) -> str:
    return read_below(stage.tree, stage.tree / path).decode("utf-8", "replace")


def _cases(output: str, package: str, files: Mapping[str, str]) -> tuple[dict[str, CaseResult], bool]:
    """Return the tests of one binary, and whether it said that it had finished."""
    lines = output.splitlines()
    code = lines[-1].rpartition("exit ")[2] if lines else ""
    said: dict[str, list[str]] = {}
    outcomes: dict[str, TestOutcome] = {}
    current = ""
    for line in lines[:-1]:
        if match := _RUN.search(line):
            current = match[1]
            said.setdefault(current, [])
        elif (match := _END.search(line)) and match[2] in said:
            outcomes[match[2]] = _OUTCOMES[match[1]]
            current = match[2]
        elif current:
            said[current].append(line)
    if code != "0":
        # A test that ended its process did not pass.
        outcomes = {name: outcomes.get(name, TestOutcome.FAILED) for name in said}
    found = {}
    for name, outcome in outcomes.items():
        file = files.get(name.partition("/")[0], "")
        ident = "::".join(filter(None, (file or package, name)))
        message = "\n".join(said[name]) if outcome is TestOutcome.FAILED else ""
        reason = _explain(message, file) if outcome is TestOutcome.FAILED else None
        found[ident] = CaseResult(ident, outcome, file, reason, shorten(message))
    return found, code != "0" or any(line.lstrip("\x16").startswith("PASS") for line in lines)


def _explain(message: str, file: str) -> Reason:
    if "panic: " not in message:
        return Reason.ASSERTION
    if re.search(r"panic: .*(?:not implemented|unimplemented|todo)", message, re.I):
        return Reason.UNFINISHED
    frames = re.findall(r"^\s+(/\S+\.go):\d+", message, re.M)
    ours = [name for name in frames if not re.search(r"/src/(?:testing|runtime)/", name)]
    return Reason.RAISED if ours and not ours[0].endswith(file or "_test.go") else Reason.OTHER


def _judge(canary: CaseResult | None, token: str) -> Canary:
    if canary is None:
        return Canary.ABSENT
    failed = canary.outcome is TestOutcome.FAILED and token in canary.message
    return Canary.FAILED if failed else Canary.SILENT


def _not_built(stage: Stage, output: str) -> Iterable[CaseResult]:
    """Yield an entry for each test file of a package that could not be built."""
    failed = set(_NOT_BUILT.findall(output))
    if not failed:
        return
    for path in stage.tests:
        package = _import_path(stage, path.rpartition("/")[0]) if path.endswith("_test.go") else ""
        if package not in failed:
            continue
        parts = re.split(r"^# ", output, flags=re.M)
        about = [part for part in parts if re.match(rf"{re.escape(package)}(?:_test)?\s", part)]
        message = "\n".join(about) or output
        reason = Reason.MISSING if _MISSING.search(message) else Reason.OTHER
        reason = Reason.SYNTAX if _SYNTAX.search(message) else reason
        yield CaseResult(path, TestOutcome.FAILED, path, reason, shorten(message), whole_file=True)


def _import_path(stage: Stage, folder: str) -> str:
    """Return the name of a package: that of its module, and the folders below it."""
    here = Path(folder)
    for place in (here, *here.parents):
        match = _MODULE.search(_text(stage, str(place / "go.mod")))
        if match:
            below = here.relative_to(place).as_posix()
            return match[1] if below == "." else f"{match[1]}/{below}"
    return ""


GO_TEST = Runner(_RUNNER, _applies, _arm, _read)
"""Reads what the binaries print; `-json` would change what other commands of Go do."""
