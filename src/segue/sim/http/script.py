"""Reads the script of a simulator from a TOML or JSON file, and says plainly what is wrong with it."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from segue.domain.errors import UsageError

_Model = TypeVar("_Model", bound=BaseModel)


def load_script(path: Path, model: type[_Model]) -> _Model:
    """The script in the file; raises UsageError when it cannot be understood."""
    try:
        text = path.read_text("utf-8")
        return model.model_validate(json.loads(text) if path.suffix == ".json" else tomllib.loads(text))
    except ValidationError as error:
        raise UsageError(f"{path}: {complaint(error)}", hint="See docs/simulators.md.") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}", hint="See docs/simulators.md.") from None


def compiles(pattern: str) -> str:
    """The pattern, if it is a regular expression."""
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from None
    return pattern


def complaint(error: ValidationError) -> str:
    """The first thing that is wrong, with its place."""
    first = error.errors()[0]
    return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
