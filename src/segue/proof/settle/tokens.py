"""Read what tests in other languages assert: their tokens, line by line, without comments and white space."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from msgspec import Struct

from segue.proof.settle.units import Check, CheckStrength, Renames, TestFile, Unit

_TOKEN = re.compile(
    r"(?P<comment>//[^\n]*|/\*.*?\*/)"
    r"|(?P<string>\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`)"
    r"|(?P<number>\d[\w.]*)|(?P<name>[A-Za-z_$][\w$]*)|(?P<sign>=>|[=!<>]==?|&&|\|\||::|->|[^\s\w])",
    re.S,
)
_HASHED = (".py", ".rb", ".sh", ".bats", ".yml", ".yaml", ".toml", ".cfg", ".ini", ".ex", ".exs", ".pl")
_GO = re.compile(r"^func\s+(?:Test|Fuzz|Example|Benchmark)\w*\s*\(", re.M)
_RUST = re.compile(r"#\[(?:\w+::)*test\b")
_JS = re.compile(r"(?<![\w.$])(?:test|it|specify)(?:\.\w+)*\s*\(")
_IMPORT = frozenset(("import", "use", "from", "require", "include", "extern", "mod"))
_EXACT = re.compile(r"(?i)(?:^|_|\.)(?:\w*(?:eq|equal|equals|same|snapshot|throws|panics|be))$")
_OPEN, _CLOSE = "([{", ")]}"


class Token(Struct, frozen=True):
    """A piece of source text."""

    kind: str
    text: str
    line: int
    at: int


def read_tokens(path: str, text: str) -> list[Token]:
    """Return the tokens of a file."""
    if path.endswith(_HASHED):
        text = re.sub(r"(^|\s)#.*", r"\1", text)
    found, line, last = [], 1, 0
    for match in _TOKEN.finditer(text):
        line += text.count("\n", last, match.start())
        last = match.start()
        if match.lastgroup != "comment" and match[0] not in (";", ","):
            found.append(Token(match.lastgroup or "", match[0], line, match.start()))
    return found


def read_other(path: str, text: str, renames: Renames) -> TestFile:
    """Return what a file in any language asserts."""
    tokens = read_tokens(path, text)
    spans = list(_spans(path, text, tokens))
    rest = [one for one in tokens if not any(first <= one.at < last for _, first, last in spans)]
    aside = _lines(path, rest, renames)
    support = tuple(line for line in aside if not _is_import(line))
    before = "\n".join(sorted(_text(line) for line in support))
    units = []
    for name, first, last in spans:
        own = [one for one in tokens if first <= one.at < last]
        if not own:
            continue
        checks = _checks(path, own, name, renames, before)
        units.append(Unit(name, own[0].line, own[-1].line, checks))
    last = tokens[-1].line if tokens else 1
    whole = "" if spans else before
    units.append(Unit("", 1, last, tuple(_check(line, whole) for line in aside)))
    return TestFile(path, text, tuple(units))


def _spans(path: str, text: str, tokens: Sequence[Token]) -> Iterator[tuple[str, int, int]]:
    """Yield the name, beginning and end of each test."""
    end = path.rpartition(".")[2]
    if end == "go":
        for match in _GO.finditer(text):
            yield match[0].split()[1].partition("(")[0], match.start(), _end(tokens, match.start(), "{")
    elif end == "rs":
        for match in _RUST.finditer(text):
            name = re.compile(r"fn\s+(\w+)").search(text, match.start())
            if name is not None:
                first = _attributes(text, match.start())
                yield name[1], first, _end(tokens, name.start(), "{")
    elif end in ("js", "ts", "mjs", "cjs", "jsx", "tsx", "mts", "cts"):
        last = 0
        for match in _JS.finditer(text):
            if match.start() < last:
                continue
            said = re.compile(r"\s*(?:\"((?:\\.|[^\"])*)\"|'((?:\\.|[^'])*)'|`([^`]*)`)").match(
                text, match.end()
            )
            if said is not None:
                last = _end(tokens, match.start(), "(")
                yield next(filter(None, said.groups()), ""), match.start(), last


def _attributes(text: str, at: int) -> int:
    """Return where the attributes begin that stand before one of them."""
    lines = text[:at].split("\n")
    count = len(lines) - 1
    while count and lines[count - 1].strip().startswith("#["):
        count -= 1
    return len("\n".join(lines[:count])) + 1 if count else 0


def _end(tokens: Sequence[Token], start: int, opening: str) -> int:
    """Return where the bracket closes that opens first after a place."""
    depth, seen = 0, False
    for one in tokens:
        if one.at < start or one.kind != "sign":
            continue
        if one.text in _OPEN:
            depth += 1
            seen = seen or one.text == opening
        elif one.text in _CLOSE:
            depth -= 1
            if depth == 0 and seen:
                return one.at + 1
    return tokens[-1].at + 1 if tokens else 0


def _lines(path: str, tokens: Sequence[Token], renames: Renames) -> list[list[Token]]:
    """Return the tokens by line, renamed."""
    lines: list[list[Token]] = []
    for one in tokens:
        new = Token(one.kind, _renamed(path, one, renames), one.line, one.at)
        if lines and lines[-1][0].line == one.line:
            lines[-1].append(new)
        else:
            lines.append([new])
    return lines


def _renamed(path: str, token: Token, renames: Renames) -> str:
    if token.kind == "name":
        return renames.name(token.text)
    if token.kind == "string":
        inner = token.text[1:-1]
        if inner.startswith(("./", "../")):
            place = posixpath.normpath(posixpath.join(posixpath.dirname(path), inner))
            return f'"{renames.path(re.sub(r"[.](?:[cm]?[jt]sx?)$", "", place))}"'
        return f'"{renames.path(inner)}"'
    return token.text


def _checks(path: str, tokens: list[Token], name: str, renames: Renames, before: str) -> tuple[Check, ...]:
    """Return the lines of a test; its first line, without the name, counts as well: it may say `skip`."""
    called = next((one.at for one in tokens if one.text.strip("\"'`") == name), -1)
    told = _lines(path, [one for one in tokens if one.at != called], renames)
    setup = "\n".join((before, *map(_shape, told)))
    return tuple(_check(line, setup) for line in told if any(one.kind != "sign" for one in line))


def _check(line: list[Token], before: str) -> Check:
    text = _text(line)
    names = frozenset(one.text for one in line if one.kind == "name")
    values = frozenset(one.text.strip("\"'`") for one in line if one.kind in ("string", "number"))
    strength = CheckStrength.PART
    if any(_EXACT.search(name) for name in names) or {"==", "===", "!=", "!=="} & {one.text for one in line}:
        strength = CheckStrength.EXACT
    return Check(text, before, _shape(line), line[0].line, strength, names, values)


def _shape(line: Sequence[Token]) -> str:
    return " ".join("?" if one.kind in ("string", "number") else one.text for one in line)


def _text(line: Sequence[Token]) -> str:
    return " ".join(one.text for one in line)


def _is_import(line: Sequence[Token]) -> bool:
    return any(one.text in _IMPORT for one in line[:1]) or any(one.text == "require" for one in line)


_ENTRIES = re.compile(r"""(?:(?:[\w.]+|"[^"]*"|'[^']*'|[\[\]{}:-])(?: |$))+""")


def has_grown(old: str, new: str) -> bool:
    """Return whether a check only got more entries, values and names, at the end of its tables."""
    before, after = old.split(" "), new.split(" ")
    if len(after) <= len(before) or after[:3] != before[:3]:
        return False
    for tag, first, _, start, end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        closes = first < len(before) and before[first] in ("}", "]")
        if tag != "equal" and not (
            tag == "insert" and closes and _ENTRIES.fullmatch(" ".join(after[start:end]))
        ):
            return False
    return True


_WAITS = re.compile(
    r"\b(?:await|async) |(?:import )?\b(?:asyncio|anyio|trio)\.run(?=\()"
    r"|^@.*\bpytest\.mark\.(?:asyncio|anyio|trio)\n?",
    re.M,
)


def only_waits(old: str, new: str) -> bool:
    """Return whether a check differs only in that it waits for what it calls, which is a coroutine now."""
    if not _WAITS.search(new) or _WAITS.search(old):
        return False
    return re.sub(r"[() ]", "", _WAITS.sub("", new)) == re.sub(r"[() ]", "", old)
