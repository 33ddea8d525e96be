"""What tools answer: failures as a message that the caller's model reads, and nothing that cannot be seen."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

from mcp.server.mcpserver.exceptions import ToolError

from segue.domain.errors import SegueError
from segue.domain.text import clean
from segue.system.files import explain_full_disk

Tool = Callable[..., Awaitable[Any]]


def explain(tool: Tool) -> Tool:
    """Return the tool, with failures as a message that the caller's model reads."""

    @wraps(tool)
    async def call(*args: Any, **values: Any) -> Any:
        try:
            return _clean(await tool(*args, **values))
        except SegueError as error:
            raise ToolError(_describe(error)) from error
        except OSError as error:
            full = explain_full_disk(error)
            raise ToolError(_describe(full) if full else f"The machine refused: {error}") from error

    return call


def _clean(value: Any) -> Any:
    """Return an answer without what cannot be seen: names of files may turn the text around them."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in value.items()}
    return [_clean(item) for item in value] if isinstance(value, list) else value


def _describe(error: SegueError) -> str:
    kept = f"\nKept: {error.kept}" if error.kept else ""
    hint = f"\nNext: {error.hint}" if error.hint else ""
    return clean(f"{error.message}{kept}{hint}")
