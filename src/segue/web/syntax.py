"""Colours code in diffs: comments, texts, numbers and words of the language, line by line."""

from __future__ import annotations

import re
from functools import cache
from pathlib import PurePath
from re import Pattern

from markupsafe import Markup, escape

_WORDS = {
    "python": "and as assert async await break case class continue def del elif else except finally for from"
    " global if import in is lambda match nonlocal not or pass raise return try while with yield None True"
    " False",
    "script": "as async await break case catch class const continue default delete do else enum export"
    " extends false finally for from function if implements import in instanceof interface let"
    " new null of private protected public readonly return static super switch this throw true"
    " try type typeof undefined var void while yield",
    "system": "as async await bool break case catch chan char class const continue crate default defer double"
    " else enum extends extern false final float fn for func go if impl implements import in int interface"
    " internal let long loop map match mod mut namespace new nil null override package private protected pub"
    " public range return select self static string struct super switch this throw throws trait true try type"
    " unsafe use using var virtual void where while",
    "shell": "case class def do done elif else end esac export false fi for function if in local module nil"
    " require return then true unless until while",
}
_FAMILIES = {
    "python": "py pyi",
    "script": "js jsx mjs cjs ts tsx mts cts vue svelte",
    "system": "go rs java kt swift c h cc cpp hpp cs php scala dart zig",
    "shell": "sh bash zsh rb yml yaml toml ini cfg dockerfile mk makefile tf",
}
_BY_ENDING = {ending: family for family, endings in _FAMILIES.items() for ending in endings.split()}
_HASH = ("python", "shell")
_LONGEST = 2_000
"""Characters of a line that are coloured."""


def colour_code(text: str, path: str) -> Markup:
    """Return a line of code with marks for the style sheet; as it is in a language that is not known."""
    name = PurePath(path).name.lower()
    family = _BY_ENDING.get(name.rpartition(".")[2])
    if family is None or len(text) > _LONGEST:
        return escape(text)
    parts, end = [], 0
    for found in _read_tokens(family).finditer(text):
        parts += [escape(text[end : found.start()]), _mark(str(found.lastgroup), found[0])]
        end = found.end()
    return Markup("").join([*parts, escape(text[end:])])


def _mark(kind: str, text: str) -> Markup:
    return Markup('<i class="c-{}">{}</i>').format(kind, text)


@cache
def _read_tokens(family: str) -> Pattern[str]:
    comment = r"\#.*" if family in _HASH else r"//.*|/\*.*?(?:\*/|$)|^\s*\*(?:\s.*|/|$)"
    texts = (
        r"[rbfRBF]{0,2}(?:\"{3}.*?(?:\"{3}|$)|'{3}.*?(?:'{3}|$)"
        r"|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|`(?:\\.|[^`\\])*`)"
    )
    words = "|".join(_WORDS[family].split())
    return re.compile(
        rf"(?P<text>{texts})|(?P<note>{comment})|(?P<word>\b(?:{words})\b)|(?P<figure>\b\d[\w.]*)"
        r"|(?P<name>\b[A-Za-z_]\w*(?=\())"
    )
