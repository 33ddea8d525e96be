"""Find the files that a command consists of: its script, and what the script is made of."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Awaitable, Callable, Collection, Sequence

_SOURCED = re.compile(r"^\s*(?:\.|source)\s+(\S.*)$", re.M)
_INCLUDED = re.compile(r"^-?s?include\s+(.+)$", re.M)
_IMPORTED = re.compile(r"^\s*(?:from|import)\s+([A-Za-z_]\w*)", re.M)
_VARIABLE = re.compile(r"^[\"']?\$(?:\(.*\)|\{[^}]*\}|\w+)[\"']?/")
_FOLDERS = ("scripts", "script", "tools", "ci", ".ci", "hack", "build-tools")
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_PACKAGE_TOOLS = ("npm", "npx", "yarn", "pnpm", "bun")
_MOST = 200

Read = Callable[[str], Awaitable[str]]


async def find_named(argv: Sequence[str], paths: Collection[str], read: Read) -> frozenset[str]:
    """Return the files that the command names, and those that these are made of."""
    known = frozenset(paths)
    found: dict[str, None] = {}
    pending = list(named_files(argv, known))
    while pending and len(found) < _MOST:
        path = pending.pop()
        if path not in found:
            found[path] = None
            pending += parts_of(path, await read(path), known)
    return frozenset(found)


def named_files(argv: Sequence[str], known: Collection[str]) -> frozenset[str]:
    """Return the files that the command names: scripts, modules behind `-m`, settings, a Makefile."""
    found: set[str] = set()
    for before, word in zip(("", *argv), argv, strict=False):
        for part in _words(word):
            clean = part.removeprefix("./")
            module = clean.replace(".", "/")
            options = (clean, f"{module}.py", f"{module}/__main__.py") if before == "-m" else (clean,)
            found.update(option for option in options if option in known)
    program = argv[0].rpartition("/")[2] if argv else ""
    if program in ("make", "gmake"):
        found.update(name for name in _MAKEFILES if name in known)
    if program in _PACKAGE_TOOLS and "package.json" in known:
        found.add("package.json")
    return frozenset(found)


def parts_of(path: str, text: str, known: Collection[str]) -> list[str]:
    """Return the files that a script, a Makefile or a package.json is made of."""
    name = path.rpartition("/")[2]
    if name in _MAKEFILES or name.endswith(".mk"):
        included = [word for line in _INCLUDED.findall(text) for word in line.split()]
        return _resolve(path, included, known) + _scripts(path, text, known)
    if name == "package.json":
        return _scripts(path, _commands(text), known)
    if name.endswith(".py"):
        inside = path.rpartition("/")[0]
        modules = _IMPORTED.findall(text) if inside else []
        return [file for module in modules if (file := f"{inside}/{module}.py") in known]
    return _resolve(path, _SOURCED.findall(text), known)


def _commands(text: str) -> str:
    try:
        scripts = json.loads(text).get("scripts", {})
        return "\n".join(str(value) for value in scripts.values())
    except (ValueError, AttributeError):
        return ""


def _scripts(path: str, text: str, known: Collection[str]) -> list[str]:
    """Return the scripts that a text calls; other files are more likely the product."""
    words = re.findall(r"[^\s;&|()\"'`=]+", text)
    return [
        file
        for file in _resolve(path, words, known)
        if file.endswith((".sh", ".bash")) or file.partition("/")[0] in _FOLDERS
    ]


def _resolve(path: str, words: Sequence[str], known: Collection[str]) -> list[str]:
    """Return the files that words mean, from the root or from the folder of the file that has them."""
    folder = path.rpartition("/")[0]
    found = []
    for word in words:
        clean = (_VARIABLE.sub("", word).split() or [""])[0].strip("\"';").removeprefix("./")
        for option in (clean, f"{folder}/{clean}" if folder else clean):
            if option in known:
                found.append(option)
                break
    return found


def _words(word: str) -> list[str]:
    """Return the words of an argument: `sh -c "./a.sh && b"` and `--config=x` name files too."""
    try:
        inner = shlex.split(word) if " " in word else [word]
    except ValueError:
        inner = word.split()
    return [piece for part in inner for piece in (part, part.partition("=")[2]) if piece]
