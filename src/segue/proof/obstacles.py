"""Finds out from how a command ended that it never got to check anything."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

from msgspec import Struct

from segue.proof.runs import Observed

_SHOWN = 12
"""Lines at the end of the output that may say what is wrong."""
_TRACE = 40
"""Lines at the end of the output that may be a stack of calls below the error."""
_MAKE = re.compile(r"^(?:(?:\S*/)?g?make(?:\[\d+\])?|\S+:\d+): \*\*\* (.*)$", re.M)
_MAKE_CODE = re.compile(r"^\[.*\] \D* ?(\d+)$")
_NOT_FOUND = re.compile(
    r"(?:^|[\s:])([^\s:]+): (?:command )?(?:not found|No such file or directory|inaccessible)"
)
_EXEC = re.compile(r"execvp (\S+): ")
_MODULE = re.compile(r"No module named '?([\w.]+)'?")
_LIBRARY = re.compile(
    r"^ModuleNotFoundError: No module named '([\w.]+)'"
    r"|^Error(?: \[\w+\])?: Cannot find (?:module|package) '([^']+)'"
)
_LACKS = re.compile(
    r"no rule|not found|no such|missing|unknown|cannot find|can't find|could not find|no module|not defined"
    r"|does not (?:exist|contain)|doesn't exist|don't know how|no idea what|unrecogni[sz]ed|invalid",
    re.I,
)
_NETWORK = re.compile(
    r"could not resolve host|name resolution|getaddrinfo|EAI_AGAIN|ENOTFOUND|ENETUNREACH"
    r"|network is unreachable|name or service not known|nodename nor servname|no address associated"
    r"|network connectivity is disabled",
    re.I,
)
NEEDS_NETWORK = "it needs the network, which check_setup has, or check_network = true"
_RUNNERS = frozenset(("pytest", "unittest", "discover", "python", "python3", "node", "npm", "run"))
_FINDING = re.compile(r"\S+:\d+")
"""How a line begins that is about a place in the project."""
_PYTEST = re.compile(r"^(?:ERROR: |ImportError while loading conftest |.*conftest)", re.M)
_NOISE = re.compile(r"\b(?:0x)?[0-9a-f]*\d[0-9a-f]*\b|\d+")


class Obstacle(Struct, frozen=True):
    """Why a command could not start."""

    reason: str
    """In the command's own words."""
    missing: tuple[str, ...] = ()
    """The names of what is missing."""


def find_obstacle(argv: Sequence[str], seen: Observed, paths: Collection[str] = ()) -> Obstacle | None:
    """Return why a command could not start, as far as its output tells; None if it probably did.

    `paths` are the files of the project: a script of its own may say of anything that it is missing.
    """
    if seen.exit_code in (0, None) or has_run(seen):
        return None
    code, stopped = _innermost(seen)
    if stopped:
        return Obstacle(stopped, quoted_names(stopped))
    if code in (126, 127):
        return _no_program(seen)
    if code == 4 and _PYTEST.search(seen.output) and not seen.tests:
        # pytest's own code for a wrong command line, and for a conftest.py that cannot be loaded
        said = [line for line in last_lines(seen.output) if line.strip()]
        reason = next(
            (line for line in reversed(said) if re.match(r"E  |.*(?:ERROR|error):", line)), said[-1]
        )
        return Obstacle(_clean(reason), (*_words(argv), *_MODULE.findall(seen.output)))
    if seen.report is not None:
        return None
    if closed := find_network(last_lines(seen.output, _TRACE)):
        return Obstacle(f"{NEEDS_NETWORK}: {_clean(closed)}")
    is_own = any(word.removeprefix("./") in paths for word in argv)
    return (None if is_own else _names_missing(argv, seen)) or _no_library(seen)


def find_network(lines: Sequence[str]) -> str:
    """Return the last line about a network that cannot be reached; empty if there is none."""
    return next((line.strip() for line in reversed(lines) if _NETWORK.search(line)), "")


def has_run(seen: Observed) -> bool:
    """Return whether a test ran; a file that could not be loaded does not count."""
    return seen.report is not None and any(not case.whole_file for case in seen.report.tests.values())


def is_same(seen: Observed, alone: Observed) -> bool:
    """Return whether a command prints the same for a project as for an empty folder."""
    said, other = (_NOISE.sub("", one.output).split() for one in (seen, alone))
    return bool(said) and seen.exit_code == alone.exit_code and said == other


def last_lines(output: str, most: int = _SHOWN) -> list[str]:
    """Return the last lines of an output that say something."""
    return [line.rstrip() for line in output.splitlines() if line.strip()][-most:]


def last_line(output: str) -> str:
    """Return the last line of an output."""
    return _clean((last_lines(output) or [""])[-1])


def lacking(argv: Sequence[str], output: str) -> tuple[str, ...]:
    """Return what a command may lack: its own words, and names at the end of its output."""
    end = "\n".join(last_lines(output))
    return tuple(dict.fromkeys((*_words(argv), *_MODULE.findall(end), *quoted_names(end))))


def absent_paths(argv: Sequence[str], paths: Collection[str]) -> tuple[str, ...]:
    """Return the paths among a command's words that the project does not have yet."""
    folders = {path[:at] for path in paths for at, letter in enumerate(path) if letter == "/"}
    found = []
    modules = {word for before, word in pairwise(argv) if before == "-m"}
    for word in _words(argv):
        if word in modules:
            continue
        path = word.partition("::")[0].removeprefix("./").rstrip("/")
        is_path = "/" in path or re.search(r"\.\w+$", path)
        if is_path and not path.startswith("/") and path not in paths and path not in folders:
            found.append(path)
    return tuple(found)


def quoted_names(text: str) -> tuple[str, ...]:
    """Return the words in quotes."""
    return tuple(dict.fromkeys(re.findall(r"[`'\"‘]([\w./:@-]+)[`'\"’]", text)))


def _innermost(seen: Observed) -> tuple[int | None, str]:
    """Return the exit code of the command that make ran; and make's own words if it ran none.

    `make: *** [Makefile:2: lint] Error 1` has brackets in every language, and others have none.
    """
    code = seen.exit_code
    for said in _MAKE.findall(seen.output):
        found = _MAKE_CODE.match(said.strip())
        if found is None and not said.startswith("["):
            return code, _clean(said).removesuffix("  Stop.")
        if found is not None and int(found[1]) != 2:
            return int(found[1]), ""
    return code, ""


def _no_program(seen: Observed) -> Obstacle:
    end = "\n".join(last_lines(seen.output))
    names = _NOT_FOUND.findall(end) or _EXEC.findall(end)
    reason = next((line for line in end.splitlines() if names and names[-1] in line), last_line(seen.output))
    return Obstacle(_clean(reason) or f"exit code {seen.exit_code}", tuple(dict.fromkeys(names)))


def _names_missing(argv: Sequence[str], seen: Observed) -> Obstacle | None:
    """Return an obstacle if the command says that one of its own words is unknown to it."""
    for line in last_lines(seen.output):
        if not _LACKS.search(line) or _FINDING.match(line):
            continue
        named = {*quoted_names(line), line.rpartition(": ")[2].strip(), line.rpartition(" ")[2].strip()}
        found = tuple(word for word in _words(argv, options=True) if word in named)
        if found:
            return Obstacle(_clean(line), found)
    return None


def _no_library(seen: Observed) -> Obstacle | None:
    """Return an obstacle if a script cannot import what it needs; a file of the project may still come."""
    for line in last_lines(seen.output, _TRACE):
        found = _LIBRARY.search(line)
        if found is not None:
            name = found[1] or found[2]
            return Obstacle(_clean(line), (name,))
    return None


def _words(argv: Sequence[str], *, options: bool = False) -> Iterator[str]:
    """Yield the words of a command that may mean something of the project; no variables, no runners."""
    for word in argv[1:]:
        is_known = "=" in word or word.startswith("/") or word in _RUNNERS
        if len(word) > 1 and not (is_known and not options) and (options or not word.startswith("-")):
            yield word


def _clean(line: str) -> str:
    return re.sub(r"^(?:E|npm (?:error|ERR!))\s+", "", line.strip())[:300]
