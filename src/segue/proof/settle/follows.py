"""Find whether a change of the product is what the words of its task say, so that tests may follow it.

What the product has now in the place of something else is looked for in the words: names, numbers, signs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from difflib import SequenceMatcher

from segue.proof.settle.asked import Words, says_value
from segue.proof.settle.tokens import read_tokens

_PIECE = re.compile(r"[A-Za-z_]\w*|\d+(?:\.\d+)?|[^\w\s]")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_FREE = frozenset(
    (
        *"()[]{}:.=@$",
        "=>",
        "->",
        "from",
        "import",
        "return",
        "raise",
        "throw",
        "def",
        "function",
        "func",
        "fn",
    )
) | {"const", "let", "var", "new"}
"""What has no meaning of its own in code."""
_COMPARING = frozenset(("<", ">", "<=", ">="))
_CALLED: Mapping[str, str] = {
    "-": "dash|dashes|hyphens?",
    "_": "underscores?",
    ",": "commas?",
    ";": "semicolons?",
    ":": "colons?",
    ".": "dots?|points?|periods?|full stops?",
    "/": "slash|slashes",
    "!": "exclamation marks?",
    "?": "question marks?",
    "|": "pipes?|bars?",
    "*": "stars?|asterisks?",
    "#": "hash|hashes",
    "%": "percent(?: signs?)?",
    "'": "single quotes?|apostrophes?",
    '"': "double quotes?",
}
Piece = tuple[str, str]
"""A kind (`code`, `number` or `text`) and what the product says."""


def find_said(
    said: Words, before: Mapping[str, str], after: Mapping[str, str], plain: Callable[[str], bool]
) -> str:
    """Return the sentence that names what a change has put into the product; empty: not all of it is named.

    `plain` says whether a sentence asks for another behaviour at all.
    """
    if not before or before.keys() != after.keys():
        return ""
    fresh: list[Piece] = []
    brackets = _added(before, after, "<") == _added(before, after, ">") > 0
    known = {piece for path, text in before.items() for piece in _pieces(path, text)}
    for path, text in before.items():
        for old, new in _hunks([*_pieces(path, text)], [*_pieces(path, after[path])]):
            found = [one for one in new if _is_named(said.text, one)]
            free = _FREE | (_COMPARING if brackets or any(kind == "number" for kind, _ in found) else set())
            if any(not _is_free(one, free) for one in new if one not in found):
                return ""
            named = [one for one in found if not _is_free(one, free)]
            lost = [one for one in old if not (_is_free(one, free) or _is_named(said.text, one))]
            if len(lost) > len(named):
                return ""
            fresh += [one for one in named if one not in known]
    telling = (one for one in said.sentences if plain(one))
    return next((one for one in telling if any(_is_named(one, piece) for piece in fresh)), "")


def _pieces(path: str, text: str) -> Iterator[Piece]:
    for token in read_tokens(path, text):
        if token.kind == "string":
            yield from (("text", one) for one in _PIECE.findall(token.text[1:-1]))
        else:
            yield "number" if token.kind == "number" else "code", token.text


def _hunks(old: list[Piece], new: list[Piece]) -> Iterator[tuple[list[Piece], list[Piece]]]:
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for tag, first, last, start, end in matcher.get_opcodes():
        if tag != "equal":
            yield old[first:last], new[start:end]


def _added(before: Mapping[str, str], after: Mapping[str, str], sign: str) -> int:
    """Return how often a sign was added: as often as the one that closes it, where it is a bracket."""
    old, new = [
        sum(piece == ("code", sign) for path, text in texts.items() for piece in _pieces(path, text))
        for texts in (before, after)
    ]
    return new - old


def _is_free(piece: Piece, free: Collection[str]) -> bool:
    kind, text = piece
    return text in "(){}[]$" if kind == "text" else text in free


def _is_named(words: str, piece: Piece) -> bool:
    kind, text = piece
    if kind == "number":
        return says_value(words, text)
    if re.match(r"\w", text):
        parts = [part.lower() for part in _PART.findall(text)]
        return _says_part(words, text) or (bool(parts) and all(_says_part(words, part) for part in parts))
    if kind == "code":
        return False
    quoted = any(f"{mark}{text}{mark}" in words for mark in "'\"`")
    called = text in _CALLED and re.search(rf"(?i)\b(?:{_CALLED[text]})\b", words)
    return quoted or bool(called) or (not text.isascii() and text in words)


def _says_part(words: str, part: str) -> bool:
    return re.search(rf"(?i)(?<![a-z]){re.escape(part)}s?(?![a-z])", words) is not None
