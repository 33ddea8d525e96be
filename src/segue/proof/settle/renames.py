"""Find what the product's own diff has renamed or moved, so that tests may follow it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher

from segue.proof.settle.tokens import read_tokens
from segue.proof.settle.units import Renames

_DEFINED = re.compile(
    r"^[ \t]*(?:export\s+)?(?:default\s+)?(?:pub(?:\([^)]*\))?\s+|public\s+|static\s+|async\s+|abstract\s+)*"
    r"(?:def|class|func|fn|function|const|let|var|type|struct|enum|trait|interface|module)\s+"
    r"(?:\([^)]*\)\s*)?(?P<name>[A-Za-z_$][\w$]*)"
    r"|^(?P<set>[A-Za-z_]\w*)\s*(?::[^=\n]+)?=(?!=)"
    r"|\bexports\.(?P<exported>\w+)\s*=",
    re.M,
)
_IMPORTED = re.compile(r"^\s*(?:import|from)\s+([A-Za-z_]\w*)", re.M)
_ALIKE = 0.5
Texts = Mapping[str, str]


def definitions(text: str) -> set[str]:
    """Return the names that a file defines."""
    return {match.group(match.lastgroup or 0) for match in _DEFINED.finditer(text)}


def _named(text: str) -> set[str]:
    """Return what a file defines, and the modules that it uses: one library may replace another."""
    return definitions(text) | set(_IMPORTED.findall(text))


def find_renames(before: Texts, after: Texts, old_tests: Texts, new_tests: Texts) -> Renames:
    """Return what changed its name or place, from the changed files of the product and of the tests."""
    paths = dict(_moved_files(before, after))
    old, new = [set[str]().union(*map(_named, texts.values())) for texts in (before, after)]
    dotted = {_module(path): _module(paths[path]) for path in paths if path.endswith(".py")}
    dotted |= _moved_names(before, after, dotted)
    names = _renamed_names(old - new, new - old, (before, after), (old_tests, new_tests))
    return Renames(names, dotted, {_stem(old): _stem(new) for old, new in paths.items()})


def _moved_files(before: Texts, after: Texts) -> Iterator[tuple[str, str]]:
    """Yield the files that are elsewhere now, with their new place."""
    gone = [path for path in before if path not in after]
    added = [path for path in after if path not in before]
    while gone and added:
        pairs = [(_alike(before[old], after[new]), old, new) for old in gone for new in added]
        likeness, old, new = max(pairs)
        if likeness < _ALIKE:
            return
        yield old, new
        gone.remove(old)
        added.remove(new)


def _alike(old: str, new: str) -> float:
    if old == new:
        return 1.0
    lines = [line.strip() for line in old.splitlines() if line.strip()]
    others = [line.strip() for line in new.splitlines() if line.strip()]
    return SequenceMatcher(None, lines, others, autojunk=False).ratio()


def _moved_names(before: Texts, after: Texts, modules: Mapping[str, str]) -> dict[str, str]:
    """Return what one module has lost and another has got."""
    moved: dict[str, str] = {}
    for path, text in before.items():
        lost = definitions(text) - definitions(after.get(path, ""))
        for other, now in after.items():
            if not path.endswith(".py") or not other.endswith(".py") or other == path:
                continue
            for name in lost & (definitions(now) - definitions(before.get(other, ""))):
                if modules.get(_module(path)) != _module(other):
                    moved[f"{_module(path)}.{name}"] = f"{_module(other)}.{name}"
    return moved


def _renamed_names(
    gone: set[str], fresh: set[str], products: tuple[Texts, Texts], tests: tuple[Texts, Texts]
) -> dict[str, str]:
    """Return the names that product and tests have replaced by others, wherever they stood."""
    if not gone or not fresh:
        return {}
    seen: Counter[tuple[str, str]] = Counter()
    for old, new in (products, tests):
        for path, text in old.items():
            for other in new.values() if path not in new else (new[path],):
                seen.update(_replaced(path, text, other, gone, fresh))
    names: dict[str, str] = {}
    for (old_name, new_name), _ in seen.most_common():
        if old_name not in names and new_name not in names.values():
            names[old_name] = new_name
    return names


def _replaced(path: str, old: str, new: str, gone: set[str], fresh: set[str]) -> Iterator[tuple[str, str]]:
    before = [one.text for one in read_tokens(path, old)]
    after = [one.text for one in read_tokens(path, new)]
    for kind, first, last, start, end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "replace" and last - first == end - start:
            for was, now in zip(before[first:last], after[start:end], strict=True):
                if was in gone and now in fresh:
                    yield was, now


def _module(path: str) -> str:
    plain = path.removeprefix("src/").removeprefix("lib/").removesuffix(".py").removesuffix("/__init__")
    return plain.replace("/", ".")


def _stem(path: str) -> str:
    return re.sub(r"\.\w+$", "", path)
