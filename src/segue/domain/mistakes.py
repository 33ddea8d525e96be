"""Explains which option of a table is wrong, and what was expected instead."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
from msgspec import inspect

from segue.domain.amounts import format_count
from segue.domain.options import OptionError, Secret, convert, option_fields
from segue.domain.text import find_nearest

_QUOTED_CHARS = 60
UNKNOWN = "is not an option"


def find_mistake(kind: Any, values: Any) -> OptionError:
    """Return the first mistake in a table that could not be read."""
    return _explain(kind, values, "") or OptionError("", "cannot be read")


def _explain(kind: Any, value: Any, path: str) -> OptionError | None:
    """Look for the mistake in the parts of a value first; what remains is about the value itself."""
    try:
        convert(kind, dict(value) if isinstance(value, Mapping) else value)
    except msgspec.ValidationError as error:
        cause = error.__cause__
    else:
        return None
    plain = _choose(kind, value)
    if _is_struct(plain) and isinstance(value, Mapping) and (unknown := find_unknown(plain, value, path)):
        return unknown
    for part in _split(plain, value, path):
        if found := _explain(*part):
            return found
    if isinstance(cause, OptionError):
        return OptionError(_join(path, cause.path), cause.message)
    if cause is not None:
        return OptionError(path, str(cause))
    return _find_missing(plain, value, path) or OptionError(path, _contrast(kind, value))


def _choose(kind: Any, value: Any) -> Any:
    """Return the type that a value is meant for: without annotations, and one member of a union."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) not in (Union, types.UnionType):
        return kind
    members = [member for member in get_args(kind) if member is not type(None)]
    structs = [member for member in members if _is_struct(member)]
    if isinstance(value, Mapping) and structs:
        tags = [member.__struct_config__ for member in structs]
        fits = [value.get(tag.tag_field) == tag.tag for tag in tags]
        if True in fits:
            return structs[fits.index(True)]
        return structs[0] if len(structs) == 1 else kind
    others = [member for member in members if member not in structs]
    return _choose(others[0], value) if len(others) == 1 else kind


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _split(kind: Any, value: Any, path: str) -> Iterator[tuple[Any, Any, str]]:
    """Yield the parts of a table or a list with their types and names."""
    arguments = get_args(kind)
    if _is_struct(kind) and isinstance(value, Mapping):
        for field in option_fields(kind):
            if field.name in value:
                yield field.type, value[field.name], _join(path, field.name)
    elif get_origin(kind) in (dict, Mapping) and isinstance(value, Mapping):
        for key, inner in value.items():
            yield arguments[0], key, _join(path, str(key))
            yield arguments[1], inner, _join(path, str(key))
    elif get_origin(kind) in (tuple, list, Sequence) and isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield arguments[0], inner, f"{path}[{place}]"


def find_unknown(kind: Any, value: Mapping[str, Any], path: str = "") -> OptionError | None:
    """Return the first key of a table that is not an option, whether or not the rest is complete."""
    config = kind.__struct_config__
    known = {config.tag_field, *kind.__struct_encode_fields__}
    unknown = next((name for name in value if name not in known), None)
    if unknown is None or not config.forbid_unknown_fields:
        return None
    near = find_nearest(unknown, name_options(kind))
    hint = f"; did you mean {_join(path, near)}?" if near else ""
    return OptionError(_join(path, unknown), f"{UNKNOWN}{hint}")


def name_options(kind: Any, prefix: str = "") -> Iterator[str]:
    """Yield the dotted name of every option below a table."""
    for field in option_fields(kind):
        yield f"{prefix}{field.name}"
        if field.is_table:
            yield from name_options(field.type, f"{prefix}{field.name}.")


def _find_missing(kind: Any, value: Any, path: str) -> OptionError | None:
    if not _is_struct(kind) or not isinstance(value, Mapping):
        return None
    needed = (field.name for field in option_fields(kind) if field.required and field.name not in value)
    missing = next(needed, None)
    return None if missing is None else OptionError(_join(path, missing), "is required")


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path and name else path or name


def _contrast(kind: Any, value: Any) -> str:
    quoted = json.dumps(value, ensure_ascii=False, default=str)
    if len(quoted) > _QUOTED_CHARS:
        quoted = f"{quoted[:_QUOTED_CHARS]}…"
    secret = Secret in get_args(kind) or kind is Secret
    return f"expected {_describe(inspect.type_info(kind))}" + ("" if secret else f", got {quoted}")


def _describe(info: inspect.Type) -> str:
    """Say in words what a type accepts."""
    if isinstance(info, inspect.Metadata):
        return str((info.extra or {}).get("expected") or _describe(info.type))
    if isinstance(info, inspect.UnionType):
        return _describe_union(info)
    if isinstance(info, inspect.LiteralType | inspect.EnumType):
        values = info.values if isinstance(info, inspect.LiteralType) else tuple(info.cls)
        return f"one of {', '.join(json.dumps(value) for value in values)}"
    if isinstance(info, inspect.IntType | inspect.FloatType):
        whole = isinstance(info, inspect.IntType)
        return f"a {'whole ' if whole else ''}number{_describe_bounds(info)}"
    if isinstance(info, inspect.StrType):
        empty = "text that is not empty" if info.min_length else "text"
        return f"text that matches {info.pattern}" if info.pattern else empty
    name = next((name for kind, name in _NAMES.items() if isinstance(info, kind)), "text")
    few = getattr(info, "min_length", None)
    return f"{name} with at least {format_count(few, 'element')}" if few and name == "a list" else name


_NAMES: dict[type[inspect.Type], str] = {
    inspect.BoolType: "true or false",
    inspect.CollectionType: "a list",
    inspect.DictType: "a table",
    inspect.StructType: "a table",
}


def _describe_union(info: inspect.UnionType) -> str:
    members = [member for member in info.types if not isinstance(member, inspect.NoneType)]
    tags = [member.tag for member in members if isinstance(member, inspect.StructType) and member.tag]
    if tags:
        first = next(member for member in members if isinstance(member, inspect.StructType))
        return f"a table with {first.tag_field} = {' or '.join(json.dumps(tag) for tag in tags)}"
    return " or ".join(dict.fromkeys(map(_describe, members)))


def _describe_bounds(info: inspect.IntType | inspect.FloatType) -> str:
    if info.ge is not None and info.le is not None:
        return f" from {info.ge:g} to {info.le:g}"
    if info.ge is not None:
        return f" of at least {info.ge:g}"
    if info.gt is not None:
        return f" above {info.gt:g}"
    return "" if info.le is None else f" of at most {info.le:g}"
