"""Settings from their layers: default < user file < project < stored run < environment < command line."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import SecretStr, ValidationError

from segue.config.settings import Settings
from segue.domain.errors import UsageError

PREFIX = "SEGUE_"
NOT_SETTINGS = {
    *("SEGUE_RUN", "SEGUE_TASK", "SEGUE_PHASE", "SEGUE_ATTEMPT", "SEGUE_JOB", "SEGUE_JOB_FOLDER"),
    *("SEGUE_RELAY_TOKEN", "SEGUE_BRIDGE_TOKEN", "SEGUE_COMPLETION_SECRET"),
    *("SEGUE_SUPERVISOR", "SEGUE_CONFIG", "SEGUE_TRACEBACK", "SEGUE_BINARY", "SEGUE_PORTABLE"),
}
"""Variables that Segue gives to agents or reads elsewhere."""

NOT_SETTINGS_PREFIX = "SEGUE_SIM_"
"""Variables for the stand-ins of `segue sim`."""

PATHS = {"state_dir", "source", "repo", "agents.scripted.script", "bridge.relay_token_file"}
PATHS |= {"relay.certfile", "relay.keyfile"}
"""Settings that name a file: relative to the file they stand in."""

SYNONYMS = {
    "agent_cmd": "agents.cursor.agent_cmd",
    "plan_path": "source",
    "repo_path": "repo",
    "stet_commands": "reviewers.stet.commands",
    "sandbox": "agents.cursor.sandbox",
    "max_address_rounds": "review.max_address_rounds",
    "phase_timeout_sec": "limits.phase_timeout",
    "max_resolutions": "limits.resolutions",
}
"""Other names under which settings are accepted."""

Tree = dict[str, Any]

_NOT_STORED = {"database_url", "notify.webhook.url", "repo", "source"}
"""Not kept with the run: secrets, and what the run says itself."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One place settings come from."""

    origin: str
    values: Tree
    base: Path | None = None


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings, and for each value where it came from."""

    settings: Settings
    origins: Mapping[str, str] = field(default_factory=dict)
    overrides: Tree = field(default_factory=dict)
    """What the environment and the command line said; stored with the run, without secrets."""

    def origin(self, path: str) -> str:
        """Where a value came from; a table answers for what it holds."""
        found = self.origins.get(path)
        if found is None and "." in path:
            return self.origin(path.rsplit(".", 1)[0])
        return found or "default"

    def rows(self) -> list[tuple[str, Any, str]]:
        """Every value with its dotted name and origin, secrets masked."""
        return [(path, value, self.origin(path)) for path, value in _leaves(self.settings.model_dump())]


def load(
    start: Path,
    *,
    config: Path | None = None,
    command_line: Tree | None = None,
    stored: Tree | None = None,
    environ: Mapping[str, str] | None = None,
) -> Loaded:
    """Read all layers and check them; `start` is where the search for the project file begins."""
    environ = os.environ if environ is None else environ
    env_layer, line_layer = _environment(environ), _without_none(command_line or {})
    layers = [
        *_files(start, config, environ),
        Layer("the run", stored or {}),
        Layer("environment", env_layer, Path.cwd()),
        Layer("command line", line_layer, Path.cwd()),
    ]
    merged: Tree = {}
    origins: dict[str, str] = {}
    overrides: Tree = {}
    for layer in layers:
        for name, value in _leaves(layer.values):
            path = SYNONYMS.get(name, name)
            _put(merged, path, _anchored(path, value, layer.base))
            origins[path] = layer.origin
            if layer in layers[-3:] and path not in _NOT_STORED:
                _put(overrides, path, _anchored(path, value, layer.base))
    return Loaded(_validated(merged, origins), origins, overrides)


def _files(start: Path, config: Path | None, environ: Mapping[str, str]) -> list[Layer]:
    named = config or (Path(environ["SEGUE_CONFIG"]) if environ.get("SEGUE_CONFIG") else None)
    user = user_file()
    layers = [_toml(user)] if user.is_file() else []
    if named is not None:
        if not named.is_file():
            raise UsageError(f"Configuration file {named} does not exist.")
        return [*layers, _toml(named)]
    project = project_file(start)
    return [*layers, _toml(project)] if project else layers


def user_file() -> Path:
    """The file for settings that hold in every project."""
    import platformdirs

    try:
        return platformdirs.user_config_path("segue") / "config.toml"
    except RuntimeError as error:  # neither HOME nor an entry of the user
        raise UsageError(
            f"There is no home folder: {error}.", hint="Set HOME to a folder of yours."
        ) from None


def project_file(start: Path) -> Path | None:
    """The nearest `segue.toml`, or `pyproject.toml` with a `[tool.segue]` table, at `start` or above.

    Above the repository only files of this user count: settings name programs to run, and a shared
    folder such as /tmp may hold a file that somebody else has put there.
    """
    outside = False
    for folder in (start, *start.parents):
        found = _settings_in(folder)
        if found is not None and not (outside and _foreign(found)):
            return found
        outside = outside or (folder / ".git").exists()
    return None


def _settings_in(folder: Path) -> Path | None:
    if (folder / "segue.toml").is_file():
        return folder / "segue.toml"
    pyproject = folder / "pyproject.toml"
    return pyproject if pyproject.is_file() and b"[tool.segue" in pyproject.read_bytes() else None


def _foreign(path: Path) -> bool:
    return hasattr(os, "getuid") and path.stat().st_uid not in (os.getuid(), 0)


def _toml(path: Path) -> Layer:
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"Configuration file {path} cannot be read: {error}") from error
    if path.name == "pyproject.toml":
        values = values.get("tool", {}).get("segue", {})
    return Layer(str(path), values, path.parent)


def _environment(environ: Mapping[str, str]) -> Tree:
    values: Tree = {}
    for name, text in environ.items():
        ours = name.startswith(PREFIX) and not name.startswith(NOT_SETTINGS_PREFIX)
        if ours and name not in NOT_SETTINGS and text != "":
            _put(values, name[len(PREFIX) :].lower().replace("__", "."), _parsed(name, text))
    return values


def environment_of(values: Tree) -> dict[str, str]:
    """Settings as the variables that another Segue reads them from."""
    return {PREFIX + path.upper().replace(".", "__"): _written(value) for path, value in _leaves(values)}


def _written(value: Any) -> str:
    """A value as `_parsed` reads it: JSON's lists and texts are TOML's too."""
    if isinstance(value, list):
        return json.dumps(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _parsed(name: str, text: str) -> Any:
    """Lists and tables are written as in TOML; everything else is text, which the types convert."""
    if not text.startswith(("[", "{")):
        return text
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"Environment variable {name} is not a TOML list or table: {error}") from error


def _without_none(tree: Tree) -> Tree:
    cleaned = {key: _without_none(v) if isinstance(v, dict) else v for key, v in tree.items()}
    return {key: value for key, value in cleaned.items() if value is not None and value != {}}


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _put(tree: Tree, path: str, value: Any) -> None:
    *tables, key = path.split(".")
    for table in tables:
        inner = tree.setdefault(table, {})
        if not isinstance(inner, dict):
            inner = tree[table] = {}
        tree = inner
    tree[key] = value


def _anchored(path: str, value: Any, base: Path | None) -> Any:
    is_path = path in PATHS or (path == "database_url" and "://" not in str(value))
    if is_path and base is not None and isinstance(value, str | Path) and str(value):
        return str(base / Path(value).expanduser())
    return value


def _validated(merged: Tree, origins: Mapping[str, str]) -> Settings:
    try:
        return Settings.model_validate(merged)
    except ValidationError as error:
        raise UsageError("\n".join(_problem(detail, origins) for detail in error.errors())) from None


def _problem(detail: Any, origins: Mapping[str, str]) -> str:
    path = ".".join(str(part) for part in detail["loc"])
    origin = next((origins[p] for p in (path, *_inner(path, origins)) if p in origins), "default")
    if detail["type"] == "extra_forbidden":
        return f"Unknown setting {path} (from {_where(origin, path)}).{_nearest(path)}"
    return f"{path}: {detail['msg']} (from {_where(origin, path)})"


def _inner(path: str, origins: Mapping[str, str]) -> list[str]:
    return [known for known in origins if known.startswith(f"{path}.") or path.startswith(f"{known}.")]


def _where(origin: str, path: str) -> str:
    return PREFIX + path.upper().replace(".", "__") if origin == "environment" else origin


def _nearest(path: str) -> str:
    from difflib import get_close_matches

    known = [name for name, _ in _leaves(Settings().model_dump())]  # type: ignore[call-arg]
    near = get_close_matches(path, known, n=1)
    return f" Did you mean {near[0]}?" if near else ""


def shown(value: Any) -> str:
    """A value as people see it: secrets masked."""
    if isinstance(value, SecretStr):
        return "[secret]"
    return "" if value is None else str(value)
