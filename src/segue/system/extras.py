"""Say how to install what one feature needs: Segue is on no index, so it comes from where it came before."""

from __future__ import annotations

import json
import sys
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from urllib.parse import unquote, urlsplit

from segue.domain.errors import ToolMissing
from segue.system.process.segue import frozen

_TOOLS = {"uv-receipt.toml": "uv tool install", "pipx_metadata.json": "pipx install --force"}
"""The file that each tool leaves in the environment that it made → its command."""


_FEATURES = {
    "litellm": ("A model of another vendor", "litellm"),
    "mcp": ("The MCP server", "mcp"),
    "procrastinate": ("The fleet", "fleet"),
    "psycopg": ("Postgres", "postgres"),
    "pyarrow": ("Parquet", "parquet"),
}
"""Module → the feature that imports it, and the extra that has it."""


def explain_import(error: Exception) -> ToolMissing | None:
    """Return the error in our own words, if a package of an extra could not be imported."""
    name = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if name not in _FEATURES:
        return None
    feature, extra = _FEATURES[name]
    return missing_extra(f"{feature} needs a package that is not installed: {name}.", extra)


def require(module: str) -> None:
    """Raise ToolMissing unless a module can be imported, before anything is started that needs it."""
    try:
        found = find_spec(module)
    except ModuleNotFoundError:
        found = None
    if found is None and (error := explain_import(ModuleNotFoundError(name=module))) is not None:
        raise error


def missing_extra(what: str, extra: str) -> ToolMissing:
    """Return the error for a feature whose packages are not installed."""
    return ToolMissing(what, kept="Nothing was started.", hint=install_line(extra))


def install_line(extra: str) -> str:
    """Return the command that installs the packages of an extra beside this Segue."""
    if frozen():
        return "Install Segue with Python instead of the single file: docs/guides/installing.md"
    place, editable = _find_origin()
    tool = next((tool for file, tool in _TOOLS.items() if Path(sys.prefix, file).exists()), None)
    locked, python = Path(place, "packaging", "extra.py"), quote(sys.executable)
    if tool is None and locked.exists():
        pip = f"{python} -m pip install --no-deps --require-hashes -r /dev/stdin"
        return f"{python} {quote(str(locked))} {extra} | {pip}"
    command = tool or f"{python} -m pip install"
    return f"{command}{' --editable' if editable else ''} {quote(f'{place}[{extra}]')}"


def _find_origin() -> tuple[str, bool]:
    """Return the folder or wheel that Segue was installed from, and whether the folder itself is used."""
    try:
        noted = json.loads(distribution("segue").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return ".", False
    path = Path(unquote(urlsplit(noted.get("url", "")).path))
    editable = bool(noted.get("dir_info", {}).get("editable"))
    return (str(path), editable) if path.is_absolute() and path.exists() else (".", False)
