"""Where Codex finds its model, as its settings say, and how to point it elsewhere."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

KEY = "CODEX_API_KEY"
_VENDOR = "https://api.openai.com/v1"
_OWN = "segue"


class CodexProvider(Struct, frozen=True):
    """Who answers Codex."""

    name: str | None = None
    """Its name in the settings; None: OpenAI, as Codex knows it."""
    base_url: str | None = _VENDOR
    """None: the settings do not say it."""
    env_key: str | None = KEY
    """The variable that has its key."""


def find_provider(config: Sequence[str]) -> CodexProvider:
    """Read the provider from settings that are written as `-c` takes them."""
    merged: dict[str, Any] = {}
    for setting in config:
        _merge(merged, _read(setting))
    name = merged.get("model_provider")
    if not isinstance(name, str):
        return CodexProvider()
    tables = merged.get("model_providers")
    table = tables.get(name) if isinstance(tables, dict) else None
    known = table if isinstance(table, dict) else {}
    return CodexProvider(name, known.get("base_url"), known.get("env_key"))


def point_at(config: Sequence[str], url: str) -> list[str]:
    """Return settings with which Codex asks another address, as it would ask its own."""
    provider = find_provider(config)
    if provider.name is not None:
        return [*config, f"model_providers.{provider.name}.base_url={json.dumps(url)}"]
    table = f'name="OpenAI",base_url={json.dumps(url)},env_key="{KEY}",wire_api="responses"'
    return [*config, f'model_provider="{_OWN}"', f"model_providers.{_OWN}={{{table}}}"]


def _read(setting: str) -> dict[str, Any]:
    try:
        return tomllib.loads(setting)
    except tomllib.TOMLDecodeError:  # a text without quotes is one too
        name, _, value = setting.partition("=")
    try:
        return tomllib.loads(f"{name}={json.dumps(value.strip())}")
    except tomllib.TOMLDecodeError:
        return {}


def _merge(into: dict[str, Any], new: dict[str, Any]) -> None:
    for key, value in new.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value
