"""The LiteLLM proxy with Segue's models: writes its configuration and runs it."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from segue.features.litellm import library
from segue.features.litellm.catalogue import COMPOSITE, DEFAULT_MODEL, PREFIX, Catalogue
from segue.features.litellm.failures import headers_of_failure
from segue.features.litellm.options import provider_settings
from segue.runtime.app import App
from segue.runtime.doctor import agent_reports
from segue.system.extras import missing_extra
from segue.system.http.guard import (
    LOOPBACK_HOSTS,
    AsgiApp,
    Message,
    Receive,
    RequestGuard,
    Scope,
    Send,
    send_error,
)
from segue.system.http.server import open_server
from segue.system.process.group import on_interrupt

KEY_VARIABLE = "LITELLM_MASTER_KEY"
HANDLER = "segue.provider.handler"

ENDPOINTS = {
    "/v1/chat/completions": "POST",
    "/chat/completions": "POST",
    "/v1/models": "GET",
    "/models": "GET",
    "/health/liveliness": "GET",
}
"""What the proxy answers, and with which method."""

_NEEDED = ("litellm", "yaml", "fastapi", "uvicorn", "apscheduler", "backoff", "orjson", "mcp", "soundfile")
_OPEN = ("/health/liveliness",)
_MAX_BODY = 4 * 1024**2
_BODY_SECONDS = 30.0


def proxy_config(app: App) -> dict[str, Any]:
    """Return the proxy's configuration: all agents, profiles and aliases."""
    catalogue = Catalogue.read(app.loaded)
    # Every model of every agent is answered; `GET /v1/models` lists one for each agent that is ready.
    ready = {report.name for report in agent_reports(app) if report.ready}
    names = [f"{provider}/{DEFAULT_MODEL}" for provider, agent in catalogue.agents.items() if agent in ready]
    names += [f"{provider}/*" for provider in catalogue.agents]
    names += [f"{PREFIX}{name}" for name in catalogue.profiles]
    models = [{"model_name": name, "litellm_params": {"model": name}} for name in names]
    models += [
        {"model_name": alias.name, "litellm_params": {**alias.params, "model": alias.model}}
        for alias in provider_settings(app.loaded.settings).models
    ]
    handlers = [
        {"provider": provider, "custom_handler": HANDLER} for provider in (*catalogue.agents, COMPOSITE)
    ]
    return {
        "model_list": models,
        # Every retry would launch a paid agent again.
        "litellm_settings": {"num_retries": 0, "custom_provider_map": handlers},
        "router_settings": {"num_retries": 0},
        "general_settings": {
            "master_key": f"os.environ/{KEY_VARIABLE}",
            # Without it LiteLLM lets an agent answer a client that has hung up.
            "cancel_on_disconnect": True,
        },
    }


def to_yaml(value: Any) -> str:
    """Format tables and lists as YAML."""
    text: str = importlib.import_module("yaml").safe_dump(value, sort_keys=False)  # LiteLLM's proxy needs it
    return text


def require_proxy() -> None:
    """Raise ToolMissing unless LiteLLM's proxy can be imported."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        what = f"The LiteLLM proxy is not installed: {', '.join(missing)} cannot be imported."
        raise missing_extra(what, "proxy")


def serve(config: Path, host: str, port: int, key: str, announce: Callable[[str], None]) -> None:
    """Run the proxy behind the guard until Ctrl-C or SIGTERM; `announce` gets its address."""
    os.environ["CONFIG_FILE_PATH"] = str(config)
    inner: AsgiApp = importlib.import_module("litellm.proxy.proxy_server").app
    # It loads its tokenizer, 40 MB, for the first answer: a server that has started does not grow.
    importlib.import_module("litellm").token_counter(model="", text="warm")

    async def run() -> None:
        stopped = asyncio.Event()
        with on_interrupt(stopped.set):
            async with open_server(guard_proxy(inner, host, key), host, port) as url:
                announce(url)
                await stopped.wait()

    try:
        asyncio.run(run())
    finally:
        library.close()


def guard_proxy(app: AsgiApp, host: str, key: str) -> AsgiApp:
    """Return the app behind the guard: with the key, from no web page, for the documented endpoints alone."""
    return RequestGuard(
        DocumentedEndpoints(app),
        key,
        (*LOOPBACK_HOSTS, host),
        max_body=_MAX_BODY,
        open_paths=_OPEN,
        body_timeout=_BODY_SECONDS,
    )


class DocumentedEndpoints:
    """Passes on what docs/guides/litellm.md lists; LiteLLM's own pages, management and schema are closed."""

    def __init__(self, app: AsgiApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it with 404 or 405."""
        if scope["type"] == "http" and scope["path"] not in ENDPOINTS:
            await send_error(send, 404, "there is no such endpoint; see `docs/guides/litellm.md`")
        elif scope["type"] == "http" and scope["method"] != ENDPOINTS[scope["path"]]:
            await send_error(send, 405, f"this endpoint takes {ENDPOINTS[scope['path']]}")
        else:
            failed: dict[str, str] = {}
            headers_of_failure.set(failed)
            await self._app(scope, receive, _change_headers(send, failed))


def _change_headers(send: Send, failed: Mapping[str, str]) -> Send:
    """Drop headers that would let web pages read an answer; add those of a failure."""

    async def send_safe(message: Message) -> None:
        if message["type"] == "http.response.start":
            more = failed if message["status"] >= 400 else {}
            added = {name.encode(): value.encode() for name, value in more.items()}
            kept = [
                (name, value)
                for name, value in message["headers"]
                if name.lower() not in added and not name.lower().startswith(b"access-control-")
            ]
            added[b"x-content-type-options"] = b"nosniff"
            message = {**message, "headers": [*kept, *added.items()]}
        await send(message)

    return send_safe
