"""The LiteLLM proxy with Segue's models: writes its configuration and runs it."""

from __future__ import annotations

import importlib
import importlib.util
import signal
from pathlib import Path
from typing import Any, NoReturn

import segue.provider
from segue.config.settings import Settings
from segue.domain.errors import ToolMissing
from segue.provider.catalogue import AGENTS, PREFIX, PROVIDERS, Catalogue

INSTALL = "pip install 'segue[proxy]'"
KEY_VARIABLE = "LITELLM_MASTER_KEY"
HANDLER = "segue.provider.handler"

_NEEDED = ("litellm", "yaml", "fastapi", "uvicorn", "apscheduler", "backoff", "orjson")


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
    """Format tables and lists as YAML."""
    text: str = importlib.import_module("yaml").safe_dump(value, sort_keys=False)  # LiteLLM's proxy needs it
    return text


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
