"""Refuses what the settings say about what does not exist, and options that a variant does not have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from segue.config.load import SOCKETS, LoadedSettings
from segue.config.settings import Settings
from segue.domain.errors import ToolMissing, UsageError
from segue.domain.options import Options
from segue.plugins import TABLES, VARIANTS
from segue.runtime import registry


def known_names(table: str) -> Iterator[str]:
    """Yield the names a table of settings may have, the built-in ones first: plug-ins are slow to find."""
    if table in VARIANTS:
        yield from VARIANTS[table]
        yield from registry.plugin_names(table)


def check_tables(loaded: LoadedSettings) -> None:
    """Refuse tables, options and names of agents that would have no effect, used in this run or not."""
    _check_profiles(loaded)
    for socket in SOCKETS:
        for name, table in getattr(loaded.settings, socket, {}).items():
            _check_options(socket, name, table, loaded)
    for path, text in _named_agents(loaded):
        _check_agents(path, text, loaded)


def _check_profiles(loaded: LoadedSettings) -> None:
    for name, table in loaded.settings.acp.items():
        from segue.agents.acp.profiles import check_profile

        path = f"acp.{name}"
        inside = (known for known in loaded.origins if known == path or known.startswith(f"{path}."))
        taken = name in registry.names("agents")
        check_profile(name, table, loaded.origin(next(inside, path)), taken)


def _check_options(socket: str, name: str, table: dict[str, Any], loaded: LoadedSettings) -> None:
    from segue.domain.mistakes import find_unknown

    place = f"{socket}.{name}"
    try:
        kind = _find_kind(socket, name, loaded)
    except ToolMissing:  # a broken plug-in: it is an error where it is used
        return
    if socket == "judges" and getattr(kind, "by_model", False):
        raise UsageError(
            f"{place}: the options of {name} belong in [judge] (from {loaded.where(place)})",
            hint="Rename the table",
        )
    options = getattr(kind, "Options", Options if name in VARIANTS[socket] else None)
    mistake = find_unknown(options, table) if options is not None else None
    if mistake is not None:
        path = f"{place}.{mistake.path}"
        message = mistake.message.replace("did you mean ", f"did you mean {place}.")
        hint = "See docs/guides/agents.md" if socket == "agents" else ""
        raise UsageError(f"{path}: {message} (from {loaded.where(path)})", hint=hint)


def _find_kind(socket: str, name: str, loaded: LoadedSettings) -> Any:
    own = loaded.settings.acp if socket == "agents" else {}
    if name in own:
        from segue.runtime.wiring import agent_kind

        return agent_kind(name, loaded)
    return registry.load(socket, name, own)


def _named_agents(loaded: LoadedSettings) -> Iterator[tuple[str, str]]:
    """Yield the settings that name agents."""
    settings = loaded.settings
    roles = settings.roles
    named = {f"roles.{role}": getattr(roles, role) for role in roles.__struct_fields__}
    named |= {f"escalate_to.{kind}": text for kind, text in settings.escalate_to.items()}
    named["agent"] = settings.agent
    for table in {*settings.__struct_fields__} - {*Settings.__struct_fields__}:
        found = TABLES.get(table)
        for name in found.agents if found else ():
            value = getattr(getattr(settings, table), name)
            named[f"{table}.{name}"] = ",".join(value) if isinstance(value, tuple) else value
    yield from ((path, str(text)) for path, text in named.items() if text)


def _check_agents(path: str, text: str, loaded: LoadedSettings) -> None:
    for choice in text.split(","):
        name = choice.partition(":")[0].strip()
        if not name or name in loaded.settings.acp:
            continue
        try:
            registry.check_name("agents", name, loaded.settings.acp)
        except UsageError as error:
            raise UsageError(
                f"{error.message} ({path}, from {loaded.where(path)})", hint=error.hint
            ) from None
