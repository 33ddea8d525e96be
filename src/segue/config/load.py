"""Settings from their layers: default < user file < project < stored run < environment < command line."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from segue.config import trust
from segue.config.feature_tables import all_settings, settings_kind
from segue.config.files import (
    FoundFile,
    find_project_file,
    is_foreign,
    is_inside,
    read_toml,
    user_file,
)
from segue.config.settings import Settings
from segue.config.tree import (
    PREFIX,
    YES,
    Tree,
    find_old_names,
    leaves,
    name_variable,
    present_names,
    put,
    read_environment,
)
from segue.config.trust import ProjectFile
from segue.domain.errors import UsageError
from segue.domain.options import OptionError, Secret, option_values, read_options
from segue.domain.text import find_nearest, suggest
from segue.plugins import TABLES
from segue.store.address import is_path
from segue.system.reading import suggest_path, work_tree

PATHS = {"state_dir", "source", "repo", "agents.scripted.script"}
"""Settings that name a file: relative to the configuration file that sets them."""

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
"""How a source begins that is no file, such as `github:`; a single letter is a drive of Windows."""

SOCKETS = ("agents", "reviewers", "sources", "judges", "notifiers", "deliveries")
"""Tables whose keys are names of parts that must exist."""

NAMED_TABLES = (*SOCKETS, "acp", "flows")
"""Tables whose keys are names: an environment variable spells their dashes as underscores."""

Known = Callable[[str], Iterable[str]]
"""Yields the names that exist for a table such as `agents`; for other tables, none."""

_NOT_STORED = {"repo", "source"}
"""Not stored with the run, because it knows them itself; secrets are not either."""


class Layer(Struct, frozen=True):
    """One place settings come from."""

    origin: str
    values: Tree
    base: Path | None = None
    of_project: bool = False
    """Whether others may have written it: then its powerful settings need trust."""


class LoadedSettings(Struct, frozen=True):
    """The settings, and for each value where it came from."""

    settings: Settings
    origins: Mapping[str, str] = field(default_factory=dict)
    overrides: Tree = field(default_factory=dict)
    """The values of the environment and the command line; stored with the run, without secrets."""
    project: ProjectFile | None = None
    """The project's file, and which of its settings are not in force."""
    found: FoundFile = FoundFile()
    """Where that file was found, and the files of other users that do not count."""
    old_names: tuple[str, ...] = ()
    """A sentence for each setting that has another name now."""

    def origin(self, path: str) -> str:
        """Return where a value came from; a table answers for its values."""
        found = self.origins.get(path)
        if found is None and "." in path:
            return self.origin(path.rsplit(".", 1)[0])
        return found or "default"

    def where(self, path: str) -> str:
        """Return the file or the environment variable that people must edit to change a value."""
        return _locate(path, self.origins)

    def rows(self) -> list[tuple[str, Any, str]]:
        """Return every value with its dotted name and origin, secrets masked."""
        values = option_values(all_settings()()) | option_values(self.settings)
        return [(path, value, self.origin(path)) for path, value in leaves(values)]


def _know_none(_table: str) -> Iterable[str]:
    return ()


def load(
    start: Path,
    *,
    config: Path | None = None,
    command_line: Tree | None = None,
    stored: Tree | None = None,
    environ: Mapping[str, str] | None = None,
    known: Known = _know_none,
) -> LoadedSettings:
    """Read and check all layers; `start` is where the search for the project file begins.

    `known` tells which agents and reviewers exist: a table for another one is an error. What the project's
    file asks for without trust is left out, and named in `project`.
    """
    environ = os.environ if environ is None else environ
    env_layer, line_layer = read_environment(environ), _without_none(command_line or {})
    files, found = _files(start, config, environ)
    allowed = environ.get(trust.VARIABLE, "") in YES
    project = _examine(files, allowed)
    if not allowed and found == FoundFile(foreign=found.foreign):
        project = trust.find_lost(start)
    left_out = _left_out(project)
    layers = [
        *files,
        Layer("the run", stored or {}),
        Layer("environment", env_layer, Path.cwd()),
        Layer("command line", line_layer, Path.cwd()),
    ]
    merged: Tree = {}
    origins: dict[str, str] = {}
    overrides: Tree = {}
    for layer in layers:
        for path, value in present_names(layer.values):
            if layer.of_project and left_out(path, value):
                continue
            if layer.origin == "environment":
                path = _spell(path, merged, known)
            put(merged, path, _anchor(path, value, layer.base))
            origins[path] = layer.origin
            if layer in layers[-3:] and path not in _NOT_STORED:
                put(overrides, path, _anchor(path, value, layer.base))
    settings = _validate(merged, origins)
    stored_values = _without_secrets(overrides, settings)
    old = tuple(_note_old_names([*files, layers[-2]]))
    loaded = LoadedSettings(settings, origins, stored_values, project, found, old)
    _refuse_unknown_names(loaded, known)
    return loaded


def _note_old_names(layers: Iterable[Layer]) -> Iterator[str]:
    """Say which settings of the user's files and variables have another name now."""
    for layer in layers:
        of_environment = layer.origin == "environment"
        for old, new in find_old_names(layer.values):
            where = "" if of_environment else f"{layer.origin}: "
            spell = name_variable if of_environment else str
            yield f"{where}{spell(old)} is now {spell(new)}."


def _without_secrets(values: Tree, settings: Settings) -> Tree:
    """Return the values without those that the settings have as secrets."""
    kept: Tree = {}
    for path, value in leaves(values):
        found: Any = settings
        for name in path.split("."):
            found = getattr(found, name, None)
        if not isinstance(found, Secret):
            put(kept, path, value)
    return kept


def _examine(files: list[Layer], allowed: bool) -> ProjectFile | None:
    """Return what the project's file asks for, and how far that is trusted."""
    for layer in files:
        if layer.of_project:
            project = trust.examine(Path(layer.origin), present_names(layer.values))
            return replace(project, held=(), removed=()) if allowed else project
    return None


def _left_out(project: ProjectFile | None) -> Callable[[str, Any], bool]:
    """Return what tells which settings of the project's file are not in force.

    An agent that only settings without trust define is left out wherever it is named.
    """
    held = set(project.held) if project else set()
    unknown = {path.split(".")[1] for path in held if path.startswith("acp.")}

    def is_left_out(path: str, value: Any) -> bool:
        names_agents = path == "agent" or path.startswith(("roles.", "escalate_to."))
        return path in held or (names_agents and any(name in str(value) for name in unknown))

    return is_left_out


def _spell(path: str, merged: Tree, known: Known) -> str:
    """Return the path with the dashes of a known name: `agents.cursor_cloud` → `agents.cursor-cloud`."""
    table, *rest = path.split(".")
    if not rest or "_" not in rest[0] or not _has_names(table):
        return path
    names = (*_keys(merged, table), *(_keys(merged, "acp") if table == "agents" else ()), *known(table))
    if rest[0] not in names:
        rest[0] = next((name for name in names if name.replace("-", "_") == rest[0]), rest[0])
    return ".".join((table, *rest))


def _has_names(table: str) -> bool:
    if table in NAMED_TABLES or table in Settings.__struct_encode_fields__:
        return table in NAMED_TABLES
    found = TABLES.get(table)
    return found is not None and found.named


def _keys(merged: Tree, table: str) -> tuple[str, ...]:
    found = merged.get(table)
    return tuple(found) if isinstance(found, dict) else ()


def _refuse_unknown_names(loaded: LoadedSettings, known: Known) -> None:
    settings = loaded.settings
    for table in SOCKETS:
        for name in getattr(settings, table, {}):  # some tables belong to parts
            if table == "agents" and name in settings.acp:
                continue
            seen = []
            for existing in known(table):
                if existing == name:
                    break
                seen.append(existing)
            else:
                _refuse(table, name, [*seen, *(settings.acp if table == "agents" else ())], loaded)


def _refuse(table: str, name: str, existing: list[str], loaded: LoadedSettings) -> None:
    if not existing:  # nobody knows which names there are
        return
    near, path = find_nearest(name, existing), f"{table}.{name}"
    hint = f"; did you mean {table}.{near}?" if near else ""
    raise UsageError(
        f"{path}: there is no {table[:-1]} of this name{hint} (from {loaded.where(path)})",
        hint=f"Known {table}: {', '.join(sorted(existing))}",
    )


def _files(start: Path, config: Path | None, environ: Mapping[str, str]) -> tuple[list[Layer], FoundFile]:
    """Return the layers of the files; the last one needs trust if it belongs to the project."""
    named = config or (Path(environ["SEGUE_CONFIG"]) if environ.get("SEGUE_CONFIG") else None)
    user = user_file()
    layers = [_toml(user)] if user.is_file() and not is_foreign(user) else []
    if named is not None:
        if not named.is_file():
            message = f"{named} is a folder." if named.is_dir() else f"{named} does not exist."
            raise UsageError(f"Configuration file {message}{suggest_path(named)}", hint="See: segue init")
        if is_foreign(named):
            return layers, FoundFile(refused=named)
        return [*layers, _toml(named, is_inside(named, start))], FoundFile(named)
    found = find_project_file(start)
    return [*layers, *([_toml(found.path, True)] if found.path else [])], found


def _toml(path: Path, of_project: bool = False) -> Layer:
    return Layer(
        str(path), read_toml(path, work_tree(path.parent) if of_project else None), path.parent, of_project
    )


def _without_none(tree: Tree) -> Tree:
    cleaned = {key: _without_none(v) if isinstance(v, dict) else v for key, v in tree.items()}
    return {key: value for key, value in cleaned.items() if value is not None and value != {}}


def join_settings(settings: Tree, over: Tree) -> Tree:
    """Return settings in which some are replaced by others, each by itself."""
    joined: Tree = {}
    for tree in (settings, over):
        for name, value in present_names(tree):
            put(joined, name, value)
    return joined


def _anchor(path: str, value: Any, base: Path | None) -> Any:
    anchored = _is_path(path) or (path == "database_url" and is_path(str(value)))
    if path == "source" and _ADDRESS.match(str(value)):
        return value
    if anchored and base is not None and isinstance(value, str | Path) and str(value):
        return str(base / Path(value).expanduser())
    return value


def _is_path(path: str) -> bool:
    table, _, name = path.partition(".")
    if table in Settings.__struct_encode_fields__:
        return path in PATHS
    found = TABLES.get(table)
    return found is not None and name in found.paths


def _validate(merged: Tree, origins: Mapping[str, str]) -> Settings:
    try:
        return read_options(settings_kind(merged), merged)
    except OptionError as wrong:
        from segue.domain.mistakes import UNKNOWN, find_mistake, name_options  # only mistakes need it

        kind = all_settings()  # a name that is not known may be meant for any part
        error = find_mistake(kind, merged) if wrong.message.startswith(UNKNOWN) else wrong
        where = _locate(error.path, origins)
        message = f"{error.path}: {error.message} (from {where})"
        if where.startswith(PREFIX) and error.message.startswith(UNKNOWN):
            variables = [name_variable(name) for name in name_options(kind)]
            message = f"{where}: there is no such setting.{suggest(where, variables, '{}')}"
        raise UsageError(message, hint="All settings: docs/reference/setting-up.md") from None


def refuse_unknown(project: ProjectFile) -> None:
    """Raise UsageError for a setting that there is not: nobody needs to allow it first."""
    from segue.domain.mistakes import UNKNOWN

    values: Tree = {}
    for name, value in project.powerful.items():
        put(values, name, value)
    try:
        _validate(values, dict.fromkeys(project.powerful, str(project.path)))
    except UsageError as error:
        if UNKNOWN in error.message:
            raise


def _locate(path: str, origins: Mapping[str, str]) -> str:
    """Return the origin of a value, a table or an element of a list; a variable by its full name."""
    name = path.partition("[")[0]
    related = (known for known in origins if known.startswith(f"{name}.") or name.startswith(f"{known}."))
    found = name if name in origins else next(related, name)
    origin = origins.get(found, "default")
    return name_variable(found) if origin == "environment" else origin


def show(value: Any) -> str:
    """Return a value as people see it: lists as in TOML, secrets masked."""
    if isinstance(value, Secret):
        return "[secret]"
    if isinstance(value, tuple | list | dict):
        import json

        return json.dumps(value, ensure_ascii=False, default=str)
    return "" if value is None else str(value)
