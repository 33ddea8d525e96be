"""Scripts of the simulators: read them, pick the entry that answers a request, count what has happened.

Programs that start as `python -I -S` use this module too, so it imports the standard library only, and
little of it. `load_script` and `check_script`, for services, import msgspec when they are called.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

T = TypeVar("T")
Test = Callable[[Any], bool]
"""Tells whether the value of one selector accepts a request."""


class BadScript(Exception):
    """A script cannot be read, or contains a word that the simulator does not know."""


def equals(fact: object) -> Test:
    """Accept a selector that is equal to the fact, whether it is written as a text or as a number."""
    return lambda wanted: str(wanted) == str(fact)


def matches(text: str) -> Test:
    """Accept a selector that is a regular expression found in the text."""
    return lambda pattern: re.search(pattern, text) is not None


def lacks(text: str) -> Test:
    """Accept a selector that is a regular expression not found in the text."""
    return lambda pattern: re.search(pattern, text) is None


def is_match(entry: Any, tests: Mapping[str, Test]) -> bool:
    """Return whether every selector of the entry, a table or an object, accepts the request."""
    for name, test in tests.items():
        wanted = entry.get(name) if isinstance(entry, Mapping) else getattr(entry, name)
        if wanted is not None and not test(wanted):
            return False
    return True


class Deck(Generic[T]):
    """Entries in the order in which they are tried, and how many requests each one has answered."""

    def __init__(self, entries: Iterable[T]) -> None:
        self._entries = list(entries)
        self._answered: Counter[int] = Counter()

    def pick(self, tests: Mapping[str, Test]) -> T | None:
        """Count and return the first entry that matches and has not yet answered its `times` requests."""
        for entry in self._entries:
            times = entry.get("times", 0) if isinstance(entry, Mapping) else getattr(entry, "times", 0)
            if (not times or self._answered[id(entry)] < times) and is_match(entry, tests):
                self._answered[id(entry)] += 1
                return entry
        return None

    def put_first(self, entries: Iterable[T]) -> None:
        """Try these entries before the others."""
        self._entries = [*entries, *self._entries]


def read_script(path: Path) -> Any:
    """Parse a TOML file, or a JSON file if its name says so; raises BadScript."""
    try:
        text = path.read_text("utf-8")
        if path.suffix == ".json":
            return json.loads(text)
        import tomllib  # is slow to import, and most launches have no script

        return tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise BadScript(f"{path} cannot be read: {error}") from None


def check_script(value: Any, kind: type[T]) -> T:
    """Check a script against its type; a bare list is its entries. Raises OptionError."""
    from segue.domain.options import OptionError, read_options

    if isinstance(value, list):
        value = {"on": value}
    if not isinstance(value, Mapping):
        raise OptionError("", "Expected a table")
    return read_options(kind, value)


def load_script(path: Path, kind: type[T], hint: str = "See: segue help simulators") -> T:
    """Read a script from a file and check it; raises UsageError."""
    from segue.domain.errors import UsageError
    from segue.domain.options import OptionError

    try:
        return check_script(read_script(path), kind)
    except OptionError as error:
        raise UsageError(f"{path}: {error}", hint=hint) from None
    except BadScript as error:
        raise UsageError(str(error), hint=hint) from None


def check_pattern(pattern: str | None) -> None:
    """Raise ValueError if the pattern is not a regular expression."""
    try:
        re.compile(pattern or "")
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None


def find_quote(diff: str) -> str | None:
    """Return what a simulated judge quotes of a diff: the longest added line that is no remark."""
    added = [line.strip() for line in re.findall(r"^\+(?!\+\+ )(.*\S.*)$", diff, re.MULTILINE)]
    code = [line for line in added if not line.startswith(("#", "//", "/*", "*", "--", "<!--", '"""'))]
    return max(code or added, key=len, default=None)


def read_block(label: str, prompt: str) -> str | None:
    """Return what a prompt has between the lines `<<<label CODE>>>` and `<<<end of label CODE>>>`."""
    fenced = rf"^<<<{label} (\S+)>>>\n(.*?)\n<<<end of {label} \1>>>$"
    found = re.search(fenced, prompt, re.DOTALL | re.MULTILINE)
    return found[2] if found else None


def fill(text: str, names: Mapping[str, str]) -> str:
    """Return the text with `{name}` replaced by its value; other braces stay as they are."""
    return re.sub(r"\{(\w+)\}", lambda found: names.get(found[1], found[0]), text)


def find_file(root: Path, name: str) -> Path:
    """Return the path of a file to change; raises BadScript unless it is in the workspace and not in .git."""
    root = root.resolve()
    path = (root / name).resolve()
    if root not in path.parents or root / ".git" in (path, *path.parents):
        raise BadScript(f"{name!r} is not a file of the workspace")
    return path


def read_words(module: str) -> dict[str, dict[str, Any]]:
    """Return the tables of `words.json` beside a module: what a script may say, each with its meaning."""
    words: dict[str, dict[str, Any]] = json.loads(Path(module).with_name("words.json").read_bytes())
    return words


def hang() -> NoReturn:
    """Never return."""
    while True:
        time.sleep(600)


class StateFile:
    """JSON lines to which several processes append, and in which they count their launches."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, **facts: Any) -> list[dict[str, Any]]:
        """Append a line and return all lines up to it, even if others append at the same time."""
        # One write at the end of the file: the position after it tells what came before.
        fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(fd, json.dumps(facts).encode() + b"\n")
            end = os.lseek(fd, 0, os.SEEK_CUR)
        finally:
            os.close(fd)
        return self.read(end)

    def read(self, end: int | None = None) -> list[dict[str, Any]]:
        """Return the lines, oldest first."""
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_bytes()[:end].splitlines()]


SELECTORS = {
    "launch": "the launch with this number, from 1, counted in the state file",
    "mode": "the mode",
    "task": "the task with this key",
    "phase": "this phase: `plan`, `execute`, …",
    "attempt": "the attempt with this number, from 1",
    "contains": "prompts that contain this text",
}
"""What an entry in the script of a program is picked by."""


class ScriptWords(NamedTuple):
    """The words that the script of a program may contain, each with its explanation."""

    settings: Mapping[str, str]
    selectors: Mapping[str, str]
    actions: Mapping[str, str]
    faults: Mapping[str, str]
    variable: str
    """The environment variable that names the script."""
    faults_variable: str
    """The environment variable that names faults for every launch."""
    state_name: str
    """The state file of launches without a script."""


class ProgramScript:
    """The script of a program that is started for every request."""

    def __init__(self, words: ScriptWords, settings: Mapping[str, Any], state: StateFile) -> None:
        self.words = words
        self.settings = settings
        self.state = state

    @classmethod
    def load(cls, words: ScriptWords, home: Path) -> ProgramScript:
        """Read the script that the environment names; without one, launches are counted in `home`."""
        named = os.environ.get(words.variable)
        if not named:
            return cls(words, {}, StateFile(home / words.state_name))
        path = Path(named)
        settings = read_script(path)
        _check_words(settings, words.settings, "key")
        for entry in settings.get("on", []):
            _check_words(entry, {**words.selectors, **words.actions}, "key")
        return cls(words, settings, StateFile(path.with_name(path.name + ".state")))

    def pick(self, launch: int, mode: str, prompt: Callable[[], str]) -> Mapping[str, Any]:
        """Return the first entry that matches this launch, or an empty one."""
        tests = {"launch": equals(launch), "mode": equals(mode)}
        tests |= {
            name: equals(os.environ.get(f"SEGUE_{name.upper()}", "")) for name in ("task", "phase", "attempt")
        }
        tests["contains"] = lambda text: text in prompt()
        entry: Mapping[str, Any] | None = Deck(self.settings.get("on", [])).pick(tests)
        return entry or {}

    def list_faults(self, entry: Mapping[str, Any]) -> set[str]:
        """Return what goes wrong in this launch."""
        named = os.environ.get(self.words.faults_variable, "").replace(",", " ").split()
        faults = {*named, *self.settings.get("faults", []), *entry.get("faults", [])}
        _check_words(faults, self.words.faults, "fault")
        return faults


def _check_words(found: Iterable[str], known: Mapping[str, str], what: str) -> None:
    for word in found:
        if word not in known:
            raise BadScript(f"unknown {what} {word!r}; known: {', '.join(known)}")
