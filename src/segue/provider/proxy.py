"""The LiteLLM proxy with Segue's models: writes its configuration and runs it."""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import segue.provider
from segue.config.settings import Settings
from segue.domain.errors import ToolMissing
from segue.provider.catalogue import AGENTS, PROVIDERS, Catalogue
from segue.provider.options import PREFIX

INSTALL = "pip install 'segue[proxy]'"
KEY_VARIABLE = "LITELLM_MASTER_KEY"
HANDLER = "segue.provider.handler"

_PLAIN = re.compile(r"[a-z]+(?:_[a-z]+)+|model|provider")
_PAIR = re.compile(r"\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}")
_NEEDED = ("litellm", "fastapi", "uvicorn", "apscheduler", "backoff", "orjson")


def proxy_config(settings: Settings, catalogue: Catalogue) -> dict[str, Any]:
    """Return the proxy's configuration: all agents, profiles and aliases."""
    names = [f"{provider}/*" for provider in AGENTS] + [f"{PREFIX}{name}" for name in catalogue.profiles]
    models = [{"model_name": name, "litellm_params": {"model": name}} for name in names]
    models += [
        {"model_name": alias.name, "litellm_params": {**alias.params, "model": alias.model}}
        for alias in settings.provider.models
    ]
    handlers = [{"provider": provider, "custom_handler": HANDLER} for provider in PROVIDERS]
    return {
        "model_list": models,
        # Every retry would launch a paid agent again.
        "litellm_settings": {"num_retries": 0, "custom_provider_map": handlers},
        "router_settings": {"num_retries": 0},
        "general_settings": {"master_key": f"os.environ/{KEY_VARIABLE}"},
    }


def to_yaml(value: Any) -> str:
    """Format tables and lists as YAML that people can read and edit."""
    return "\n".join(_lines(value, "")) + "\n"


def _lines(value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            nested = isinstance(inner, dict | list) and inner
            yield f"{indent}{_key(key)}:" + ("" if nested else f" {_scalar(inner)}")
            if nested:
                yield from _lines(inner, indent + "  ")
    elif isinstance(value, list) and value:
        for item in value:
            first, *rest = _lines(item, indent + "  ")
            yield f"{indent}- {first.lstrip()}"
            yield from rest
    else:
        yield f"{indent}{_scalar(value)}"


def _key(key: str) -> str:
    """Quote a key unless YAML is sure to read it as a string: `on` and `no` are not."""
    return key if _PLAIN.fullmatch(key) else _scalar(key)


def _scalar(value: Any) -> str:
    """Format a value as JSON, but with YAML's one escape for characters beyond 16 bits."""
    return _PAIR.sub(_join_surrogates, json.dumps(value))


def _join_surrogates(pair: re.Match[str]) -> str:
    character: str = json.loads('"' + pair[0] + '"')
    return f"\\U{ord(character):08x}"


def require_proxy() -> None:
    """Raise ToolMissing unless LiteLLM's proxy can be imported."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise ToolMissing(
            f"The LiteLLM proxy is not installed: {', '.join(missing)} cannot be imported.",
            hint=f"Install it: {INSTALL}",
        )


def serve(config: Path, host: str, port: int) -> None:
    """Run the proxy until Ctrl-C or SIGTERM."""
    run_server: Any = importlib.import_module("litellm.proxy.proxy_cli").run_server
    arguments = ["--config", str(config), "--host", host, "--port", str(port), "--telemetry", "False"]
    # Uvicorn raises the signal again after its shutdown; it must not kill us before the agents have stopped.
    signal.signal(signal.SIGTERM, _exit)
    try:
        run_server.main(arguments, standalone_mode=False)
    finally:
        segue.provider.close()


def _exit(*_: object) -> NoReturn:
    raise SystemExit(0)
