"""What became of old tests whose old version fails now: moved, renamed with the product, asked for, or not.

Pure functions over texts. What nothing here accepts is a judge's or a person's to decide.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import SequenceMatcher

from msgspec import Struct

from segue.domain.proof import ChangedTest, HowSettled

_WORD = re.compile(r"[A-Za-z_]\w*")
_TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.]*|\s+|.")
_IMPORT = re.compile(r"^\s*(?:from\s+\S+\s+import\b|import\b|.*\brequire\s*\(|use\s|package\s)")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n")
_CHANGE = re.compile(
    r"\b(?:chang|updat|adapt|adjust|rewrit|replac|remov|delet|drop|renam|mov|correct|skip)\w*", re.I
)
_DEFINED = re.compile(
    r"\b(?:def|class|function|func|fn|const|let|var|struct|type|interface|enum)\s+(\w+)|\bexports\.(\w+)"
)
_WORDS = {
    "passed": "It was changed",
    "skipped": "It is skipped now",
    "gone": "It was removed, or is run by nothing now",
}
_OPENING, _CLOSING = "([{", ")]}"


class OldTest(Struct, frozen=True):
    """A test of the base whose result changed only because the agent edited tests or settings."""

    id: str
    file: str
    """Where it was; empty: not known."""
    now: str
    """`passed`, `skipped`, or `gone`."""
    was_red: bool = False
    """Whether it failed on the base: then a task that names it wants it to pass."""


class TaskTexts(Struct, frozen=True):
    """What a task says, and the files that it changed."""

    words: str
    before: Mapping[str, str]
    """The changed tests and control files, as they were; empty: new."""
    after: Mapping[str, str]
    """The same as they are; empty: removed."""
    product: Mapping[str, tuple[str, str]]
    """The changed files of the product, before and after."""
    passing: Collection[str] = ()
    """The tests that pass now."""


def review(tests: Sequence[OldTest], task: TaskTexts) -> tuple[ChangedTest, ...]:
    """Return what became of each test."""
    return tuple(_review(test, task, _find_renames(task.product)) for test in tests)


def _review(test: OldTest, task: TaskTexts, renames: Mapping[str, str]) -> ChangedTest:
    name, path = name_of(test.id), test.file or test.id
    if not test.file and test.id and path not in task.before:
        path = next((path for path, text in task.before.items() if _mentions(text, name)), path)
    if not test.id:
        path = next(iter(task.after), "")
    old = _find_unit(path, task.before.get(path, ""), name)
    new = _find_unit(path, task.after.get(path, ""), name)
    line = new[0] + _first_difference(old[1], new[1]) if new[1] else _find_line(task, path)
    if settled := _settle(test, task, renames, old[1], new[1]):
        return ChangedTest(path, line, test.id, *settled)
    was = old[1].splitlines()[_first_difference(old[1], new[1]) :][:1] if new[1] else []
    quote = f" It said `{was[0].strip()}`." if was else ""
    words = f"{_WORDS[test.now]}, and its old version fails.{quote}"
    is_off = test.now != "passed" and bool(test.id)
    return ChangedTest(path, line, test.id, HowSettled.UNSETTLED, words, off=is_off)


def _settle(
    test: OldTest, task: TaskTexts, renames: Mapping[str, str], old: str, new: str
) -> tuple[HowSettled, str] | None:
    """Return what accepts the change of a test; None: nothing does."""
    name = name_of(test.id)
    if test.now == "gone" and old and (place := _find_moved(test, task, old, renames)):
        return HowSettled.MECHANICAL, f"It was moved to {place}."
    if (
        test.now == "passed"
        and old
        and new
        and _same(old, new, renames)
        and _imports_product(test.file, task)
    ):
        return HowSettled.MECHANICAL, "Only names changed in it, as in the product."
    if not test.was_red and test.id and _is_named(test, name, task.words):
        return HowSettled.ASKED, "The task names it."
    gone = [word for word in _removed_names(task) if word not in renames and _mentions(old, word)]
    if test.now == "gone" and gone:
        return HowSettled.ASKED, f"The task removes {gone[0]}."
    return None


def name_of(test: str) -> str:
    """Return the own name of a test, without its file, class and parameters."""
    return re.split(r"::|/| > |\.(?=\w+$)", test.partition("[")[0])[-1].strip()


def _is_named(test: OldTest, name: str, words: str) -> bool:
    """Return whether a task names the test; or its file, in a sentence about changing something."""
    if len(name) > 3 and _mentions(words, name):
        return True
    file = test.file.rpartition("/")[2]
    return bool(file) and any(
        _CHANGE.search(sentence) and file in sentence for sentence in _SENTENCE.split(words)
    )


def _removed_names(task: TaskTexts) -> list[str]:
    """Return the definitions and modules that the task names and the product has no more."""
    words = set(_WORD.findall(task.words))
    gone = {_stem(path) for path, (_, after) in task.product.items() if not after}
    before, after = (
        {name for texts in task.product.values() for pair in _DEFINED.findall(texts[side]) for name in pair}
        - {""}
        for side in (0, 1)
    )
    return sorted(words & (gone | (before - after)))


def _mentions(text: str, word: str) -> bool:
    return bool(word) and re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None


def _find_moved(test: OldTest, task: TaskTexts, old: str, renames: Mapping[str, str]) -> str:
    """Return the file in which the same test passes now, maybe under another name; empty: none."""
    name, passing = name_of(test.id), {name_of(key) for key in task.passing if key != test.id}
    for path, text in task.after.items():
        for other in {name, *(one.name for one in _functions(text) if path.endswith(".py"))} & passing:
            is_here = path == test.file and other == name
            if not is_here and _same(old, _find_unit(path, text, other)[1], {**renames, name: other}):
                return path
    return ""


def _same(old: str, new: str, renames: Mapping[str, str]) -> bool:
    """Return whether a text is the other but for layout and for names that the product changed."""
    return bool(new) and _normal(old, renames) == _normal(new, {})


def _normal(text: str, renames: Mapping[str, str]) -> str:
    tokens = (token for token in _TOKEN.findall(text) if not token.isspace())
    return " ".join(renames.get(token, token) for token in tokens)


def _imports_product(file: str, task: TaskTexts) -> bool:
    """Return whether what a test file newly imports is not a file of the tests."""
    before, after = [set(text.get(file, "").splitlines()) for text in (task.before, task.after)]
    added = [line for line in after - before if _IMPORT.match(line)]
    stems = {path.rpartition("/")[2].partition(".")[0] for path in task.after if path != file}
    return not any(stems.intersection(_WORD.findall(line)) for line in added)


def _find_renames(product: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Return the names that the product's changes replaced, each with the one that it always became."""
    found: dict[str, set[str]] = {}
    pairs = [texts for texts in product.values() if all(texts)]
    gone = [path for path, texts in product.items() if texts[0] and not texts[1]]
    for path, (old, new) in product.items():
        if new and not old:  # a renamed file: the most similar of those that went
            near = [(SequenceMatcher(None, product[one][0], new).ratio(), one) for one in gone]
            if near and max(near)[0] > 0.6:
                source = max(near)[1]
                pairs.append((product[source][0], new))
                found.setdefault(_stem(source), set()).add(_stem(path))
    for old, new in pairs:
        left, right = _WORD.findall(old), _WORD.findall(new)
        for kind, a, b, c, d in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
            if kind == "replace" and b - a == d - c:
                for one, other in zip(left[a:b], right[c:d], strict=True):
                    found.setdefault(one, set()).add(other)
    kept = {word for _, new in product.values() for word in _WORD.findall(new)}
    single = {old: next(iter(news)) for old, news in found.items() if len(news) == 1 and old not in kept}
    several = [new for new in single.values() if list(single.values()).count(new) > 1]
    return {old: new for old, new in single.items() if old != new and new not in several}


def _stem(path: str) -> str:
    return path.rpartition("/")[2].partition(".")[0]


def _find_unit(path: str, text: str, name: str) -> tuple[int, str]:
    """Return the line where a test begins, and its text; nothing if it is not there."""
    if path.endswith(".py"):
        for node in _functions(text):
            if node.name == name:
                first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
                return first, "\n".join(text.splitlines()[first - 1 : node.end_lineno])
        return 0, ""
    for number, line in enumerate(text.splitlines()):
        if _mentions(line, name) and not _IMPORT.match(line):
            return number + 1, _take_block(text.splitlines()[number:])
    return 0, ""


def _functions(text: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def _take_block(lines: Sequence[str]) -> str:
    """Return the lines until what the first of them opens is closed."""
    depth = 0
    for number, line in enumerate(lines):
        depth += sum(line.count(mark) for mark in _OPENING) - sum(line.count(mark) for mark in _CLOSING)
        if depth <= 0:
            return "\n".join(lines[: number + 1])
    return "\n".join(lines)


def _find_line(task: TaskTexts, path: str) -> int:
    """Return the first line of a file that differs; 0: the file is gone."""
    before, after = task.before.get(path, ""), task.after.get(path, "")
    return min(_first_difference(before, after) + 1, len(after.splitlines()))


def _first_difference(before: str, after: str) -> int:
    """Return how many lines at the beginning of two texts are the same."""
    pairs = zip(before.splitlines(), after.splitlines(), strict=False)
    return next((number for number, (one, other) in enumerate(pairs) if one != other), 0)
