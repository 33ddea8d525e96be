"""`segue proxy`: serve agents and profiles as models through LiteLLM's proxy."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from segue.cli.options import CommandSettings, options
from segue.cli.terminal.output import Printer

if TYPE_CHECKING:
    from segue.runtime.app import App

KEY_VARIABLE = "LITELLM_MASTER_KEY"
_KEY_FILE = "key"


@click.group(invoke_without_command=True)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", default=4000, show_default=True, help="The port to listen on.")
@options("config")
@click.pass_context
def proxy(context: click.Context, host: str, port: int, settings: CommandSettings, output: Printer) -> None:
    """Serve agents and profiles as models for any OpenAI-compatible client.

    Needs LiteLLM, the extra proxy. Clients need the master key: LITELLM_MASTER_KEY if set, else
    one that Segue creates and stores.

    \b
    Examples:
      segue proxy
      segue proxy --port 4100
      segue proxy key
      segue proxy config > config.yaml
    """
    if context.invoked_subcommand is not None:
        return
    _require()
    app = _load(settings)
    from segue.features.litellm.proxy import proxy_config, serve, to_yaml
    from segue.system.secrets import write_secret

    folder = _folder(app)
    key, new = _master_key(folder)
    os.environ[KEY_VARIABLE] = key
    path = folder / f"proxy-{port}.yaml"
    write_secret(path, to_yaml(proxy_config(app)).encode())
    if new:
        output.note(f"Created a key for clients in {folder / _KEY_FILE}: {key}")
    serve(path, host, port, key, lambda url: output.note(f"Serving on {url}/v1; key: segue proxy key"))


@proxy.command("config")
@options("config", "json")
def config(settings: CommandSettings, output: Printer) -> None:
    """Print a config.yaml for your own LiteLLM proxy.

    \b
    Examples:
      segue proxy config > config.yaml
      LITELLM_MASTER_KEY=$(segue proxy key) litellm --config config.yaml --host 127.0.0.1
    """
    _require()
    from segue.features.litellm.proxy import proxy_config, to_yaml

    made = proxy_config(_load(settings))
    output.result(made, to_yaml(made).rstrip("\n"))


@proxy.command("key")
@options("config")
def key(settings: CommandSettings, output: Printer) -> None:
    """Print the key for clients of the proxy; creates one if there is none.

    \b
    Examples:
      OPENAI_API_KEY=$(segue proxy key) OPENAI_BASE_URL=http://127.0.0.1:4000/v1 your-client
    """
    found, _new = _master_key(_folder(_load(settings)))
    output.text(found)


def _load(settings: CommandSettings) -> App:
    if settings.config is not None:
        # The models read the settings themselves, in whichever process the proxy runs them.
        os.environ["SEGUE_CONFIG"] = str(settings.config.absolute())
    return settings.load()


def _require() -> None:
    """Check for LiteLLM without importing it, which takes seconds or fails with a message of its own."""
    from importlib.util import find_spec

    from segue.system.extras import missing_extra

    if find_spec("litellm") is None:
        raise missing_extra("LiteLLM is not installed.", "proxy")
    from segue.features.litellm.proxy import require_proxy

    require_proxy()


def _folder(app: App) -> Path:
    from segue.system.secrets import make_secret_folder

    return make_secret_folder(app.secret_dir / "proxy")


def _master_key(folder: Path) -> tuple[str, bool]:
    """Return the key for clients and whether it is new; the environment comes first."""
    import secrets

    from segue.system.secrets import keep_secret

    if given := os.environ.get(KEY_VARIABLE):
        return given, False
    path = folder / _KEY_FILE
    known = path.exists()
    return keep_secret(path, lambda: f"sk-segue-{secrets.token_urlsafe(24)}"), not known
