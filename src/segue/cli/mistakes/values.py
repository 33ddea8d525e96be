"""What an option or an argument takes, in words, and a value that it would take."""

from __future__ import annotations

from collections.abc import Sequence
from re import DOTALL
from typing import Any

import click

from segue.cli.mistakes import words as others
from segue.domain.pattern import pattern

_GIVEN = pattern(r"'?(.*?)'? is not (?:a valid|one of|in the range)\b.*", DOTALL)
"""How click says that a value is none; what a command says itself stays as it is."""
_SAMPLES = {"--agent": "claude", "--task": "1"}


def explain_value(error: click.BadParameter) -> tuple[str, str, str]:
    """Return what is wrong with a value, the value, and one that is probably meant; empty: unknown."""
    found = _GIVEN.fullmatch(error.message)
    param = error.param
    if found is None or param is None:
        return f"{name_of(param)}: {error.message}" if param is not None else error.message, "", ""
    kind, value = param.type, found[1]
    meant = _find_meant(value, kind.choices) if isinstance(kind, click.Choice) else _find_number(value, kind)
    if meant and isinstance(kind, click.Choice):
        return f"{name_of(param)} takes no {value!r}. Did you mean {meant}?", value, meant
    return f"{name_of(param)} takes {describe(kind)}, not {value!r}.", value, meant


def _find_number(value: str, kind: click.ParamType[Any]) -> str:
    """Return the only number in a value, brought within the bounds; empty: there is none."""
    numbers = pattern(r"-?\d+").findall(value)
    if not isinstance(kind, click.types.IntParamType) or len(numbers) != 1:
        return ""
    low, high, number = getattr(kind, "min", None), getattr(kind, "max", None), int(numbers[0])
    number = number if low is None else max(low, number)
    return str(number if high is None else min(high, number))


def name_of(param: click.Parameter | None) -> str:
    """Return how people write an option or an argument."""
    if param is None:
        return "A value"
    if isinstance(param, click.Option):
        return param.opts[-1]
    named = param.metavar or ""
    return (param.name or "").upper() if not named or "|" in named else named.strip("[]").upper()


def describe(kind: click.ParamType[Any]) -> str:
    """Say what values there are."""
    if isinstance(kind, click.Choice):
        return f"one of {', '.join(map(str, kind.choices))}"
    whole = isinstance(kind, click.types.IntParamType)
    number = "a whole number" if whole else "a number"
    low, high = getattr(kind, "min", None), getattr(kind, "max", None)
    if low is not None and high is not None:
        return f"{number} from {low:g} to {high:g}"
    return f"{number} of at least {low:g}" if low is not None else number


def sample(param: click.Parameter) -> str:
    """Return a value that an option or argument takes, to show how it is written."""
    kind = param.type
    if isinstance(kind, click.Choice):
        return str(kind.choices[0])
    if isinstance(kind, click.types.IntParamType):
        default = param.default
        low, high = getattr(kind, "min", None) or 0, getattr(kind, "max", None) or 4
        return str(default) if isinstance(default, int) else str(max(low, min(4, high)))
    return _SAMPLES.get(param.opts[-1], (param.metavar or "VALUE").strip("[]"))


def _find_meant(value: str, choices: Sequence[object]) -> str:
    from segue.domain.text import find_nearest

    known = [str(one) for one in choices]
    inside = [one for one in known if one in value.casefold().split("-") or one.startswith(value.casefold())]
    alike = find_nearest(value, known, 0.7)
    called = [one for one in others.meanings(others.VALUES, value.casefold()) if one in known]
    return next((one for one in (*called, *([alike] if alike else []), *inside)), "")


def find_setting(name: str) -> str:
    """Return the setting of this name, or the only one that ends with it; empty: there is none."""
    from segue.config.part_tables import list_settings

    known = [one for one, _ in list_settings()]
    ending = [one for one in known if name in (one.rpartition(".")[2], one.replace(".", "_"))]
    ending = [one for one in ending if one.count(".") < 2]  # deeper ones have names that mean anything
    ending = [one for one in ending if one == f"limits.{name}"] or ending
    if name in known:
        return name
    return ending[0] if len(ending) == 1 else ""


def _list_kinds(kind: Any) -> list[Any]:
    """Return the types that a value may have, without bounds."""
    from typing import Annotated, Literal, get_args, get_origin

    origin = get_origin(kind)
    if origin is Annotated:
        return _list_kinds(get_args(kind)[0])
    if origin is Literal or not get_args(kind):
        return [kind]
    return [one for some in get_args(kind) for one in _list_kinds(some)]


def fit_setting(setting: str, given: str) -> str | None:
    """Return the value that a setting takes and that was probably meant; None: it takes none like that."""
    from enum import Enum
    from typing import Literal, get_args, get_origin

    import msgspec

    from segue.config.part_tables import list_settings
    from segue.domain.amounts import parse_duration

    kind = dict(list_settings())[setting].type
    kinds = _list_kinds(kind)
    choices: list[str] = [
        one.value for some in kinds if isinstance(some, type) and issubclass(some, Enum) for one in some
    ]
    choices += [one for some in kinds if get_origin(some) is Literal for one in get_args(some)]
    if choices:
        return given if given in choices else _find_meant(given, choices) or None
    if not any(one in (int, float) for one in kinds):
        return given
    seconds = parse_duration(given)
    numbers: list[str] = pattern(r"\d+(?:\.\d+)?").findall(given)
    values = [given, *([] if seconds is None else [f"{seconds:g}"]), *(numbers if len(numbers) == 1 else [])]
    for value in values:
        try:
            msgspec.convert(value, kind, strict=False)
        except msgspec.ValidationError:
            continue
        return value
    return None
