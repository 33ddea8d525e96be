"""The interface of files: names and signatures without bodies, read with tree-sitter's grammars."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from segue.proof.mutation.grammar import find_language, parse
from segue.proof.mutation.source import FUNCTION, text_of
from segue.proof.paths import Classifier, PathKind
from segue.proof.trees import TreeEntry, read_text
from segue.system.beneath import read_below
from segue.system.git.objects import Objects

if TYPE_CHECKING:
    from tree_sitter import Node

_NAMED = re.compile(r"[\w.-]+(?:/[\w.-]+)*\.\w+")
_LARGEST_SOURCE = 256 * 1024
_MOST_FILES = 20
_MOST_READ = 200
"""Changed files that are read: each takes two processes, and an agent may have made thousands."""
_MOST_NAMES = 200
_HOLDS_NAMES = re.compile(
    r".*(?:class|interface|struct|trait|impl|module|enum|namespace|object|record)"
    r"(?:_definition|_declaration|_item|_specifier)?"
)
_PASSED_THROUGH = re.compile(
    r"decorated_definition|export_statement|export_declaration|expression_statement|lexical_declaration"
    r"|variable_declaration|type_declaration|const_declaration|var_declaration|const_spec_list|declaration"
)
_NAMES_A_VALUE = re.compile(r"assignment|assignment_expression|variable_declarator|const_spec|var_spec")
_IS_VALUE = re.compile(
    r"const_item|static_item|type_spec|type_item|type_alias_declaration|.*_statement_alias"
)


def describe_interface(folder: Path, text: str) -> str:
    """Return the public names in the files of a folder that a text names."""
    found = {}
    for name in dict.fromkeys(_NAMED.findall(text)):
        path = folder / name.rstrip(".")
        is_odd = ".." in path.parts or not path.is_file() or path.is_symlink()
        if not is_odd and path.stat().st_size <= _LARGEST_SOURCE:
            data = read_below(folder, path, _LARGEST_SOURCE)
            found[path.relative_to(folder).as_posix()] = data.decode("utf-8", "replace")
    return _list({path: list_names(path, source) for path, source in found.items()})


async def describe_new_names(
    objects: Objects, base: Mapping[str, TreeEntry], head: Mapping[str, TreeEntry], classifier: Classifier
) -> str:
    """Return the public names that a change has made or altered in the product: no bodies, and no tests."""
    found = {}
    changed = (path for path in sorted(head) if base.get(path) != head[path])
    for path in islice((path for path in changed if _may_hold_names(path)), _MOST_READ):
        if classifier.kind(path, path not in base) is not PathKind.CODE:
            continue
        before, after = await read_text(objects, base, path), await read_text(objects, head, path)
        if len(after) <= _LARGEST_SOURCE:
            known = set(list_names(path, before))
            found[path] = [name for name in list_names(path, after) if name not in known]
    return _list({path: names for path, names in found.items() if names})


def _may_hold_names(path: str) -> bool:
    """Return whether there is a grammar for a file; one without an ending may begin by naming a language."""
    return "." not in PurePosixPath(path).name or find_language(path, "") is not None


def _list(found: Mapping[str, list[str]]) -> str:
    files = list(found.items())[:_MOST_FILES]
    return "\n".join("\n".join([f"{path}:", *(f"  {one}" for one in names)]) for path, names in files)


def list_names(path: str, text: str) -> list[str]:
    """Return the public names of a file with their signatures; none where there is no grammar for it."""
    language = find_language(path, text)
    root = parse(language, text.encode()) if language is not None else None
    if root is None:
        return []
    return list(islice(_names(root, "", path.endswith(".go")), _MOST_NAMES))


def _names(node: Node, indent: str, is_go: bool) -> Iterator[str]:
    for child in node.named_children:
        kind = child.type
        if _PASSED_THROUGH.fullmatch(kind):
            yield from _names(child, indent, is_go)
        elif FUNCTION.fullmatch(kind) or _HOLDS_NAMES.fullmatch(kind):
            yield from _definition(child, indent, is_go)
        elif _NAMES_A_VALUE.fullmatch(kind):
            yield from _value(child, indent, is_go)
        elif _IS_VALUE.fullmatch(kind):
            name = _name_of(child)
            if _is_public(name, is_go):
                yield f"{indent}{name}"


def _definition(node: Node, indent: str, is_go: bool) -> Iterator[str]:
    name, body = _name_of(node), node.child_by_field_name("body")
    if not _is_public(name, is_go) and node.type != "impl_item":
        return
    yield f"{indent}{_header(node, body)}"
    if body is not None and not FUNCTION.fullmatch(node.type):
        yield from _names(body, f"{indent}  ", is_go)


def _value(node: Node, indent: str, is_go: bool) -> Iterator[str]:
    left = node.child_by_field_name("left") or node.child_by_field_name("name")
    value = node.child_by_field_name("right") or node.child_by_field_name("value")
    name = text_of(left) if left is not None else ""
    if not re.fullmatch(r"[\w.$]+", name) or not _is_public(name, is_go):
        return
    if value is not None and FUNCTION.fullmatch(value.type):
        body = value.child_by_field_name("body")
        yield f"{indent}{name} = {_header(value, body)}"
    else:
        yield f"{indent}{name}"


def _header(node: Node, body: Node | None) -> str:
    """Return what stands before a body, on one line."""
    text = node.text or b""
    header = text[: body.start_byte - node.start_byte] if body is not None else text.split(b"\n", 1)[0]
    plain = " ".join(header.decode("utf-8", "replace").split())
    return plain.removesuffix("{").removesuffix("=>").rstrip().removesuffix(":").rstrip()


def _name_of(node: Node) -> str:
    name = node.child_by_field_name("name")
    return text_of(name) if name is not None else ""


def _is_public(name: str, is_go: bool) -> bool:
    last = name.rpartition(".")[2]
    return name == "__init__" or (not last.startswith(("_", "#")) and (not is_go or last[:1].isupper()))
