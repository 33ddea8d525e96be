"""Turns a call into a command: parameters are checked by pattern, then put into the action's argv."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from segue.domain.argv import fill
from segue.relay.options import ActionSettings

LONGEST_VALUE = 4096


class WrongParameter(Exception):
    """A parameter is missing, unknown, or not what its pattern allows."""


def checked(action: ActionSettings, given: Mapping[str, Any]) -> dict[str, str]:
    """The parameters, if they are exactly those of the action and each one matches."""
    if unknown := sorted(given.keys() - action.parameters.keys()):
        raise WrongParameter(f"there is no parameter {unknown[0][:64]!r}")
    values: dict[str, str] = {}
    for name, pattern in action.parameters.items():
        if name not in given:
            raise WrongParameter(f"parameter {name} is missing")
        value = given[name]
        if not isinstance(value, str) or len(value) > LONGEST_VALUE or not _encodable(value):
            raise WrongParameter(f"parameter {name} must be a text of at most {LONGEST_VALUE} characters")
        if not re.fullmatch(pattern, value):
            raise WrongParameter(f"parameter {name} does not match {pattern}")
        values[name] = value
    return values


def command(action: ActionSettings, values: Mapping[str, str]) -> list[str]:
    """The argv. A value never becomes an option: whoever wants that writes the dash into the action."""
    argv = [fill(template, values) for template in action.argv]
    for template, argument in zip(action.argv, argv, strict=True):
        if argument.startswith("-") and not template.startswith("-"):
            raise WrongParameter("a parameter may not begin with a dash here")
    return argv


def _encodable(value: str) -> bool:
    try:
        return b"\0" not in value.encode()
    except UnicodeEncodeError:
        return False
