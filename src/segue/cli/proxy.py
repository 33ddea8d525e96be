"""`segue proxy`: serve agents and profiles as models, through LiteLLM's proxy."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from segue.cli.options import make_output, options

if TYPE_CHECKING:
    from segue.runtime.wiring import App

INSTALL = "pip install 'segue[proxy]'"
KEY_VARIABLE = "LITELLM_MASTER_KEY"
_KEY_FILE = "proxy-key"


@click.group(invoke_without_command=True)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", default=4000, show_default=True, help="The port to listen on.")
@options("config")
@click.pass_context
def proxy(context: click.Context, host: str, port: int, config_file: Path | None) -> int:
    """Serve agents and profiles as models, for every client that speaks OpenAI's protocol.

    Needs LiteLLM: pip install 'segue[proxy]'. Clients need the master key: LITELLM_MASTER_KEY if it is
    set, else one that is made and kept for you.

    \b
    Examples:
      segue proxy
      segue proxy --port 4100
      segue proxy key
      segue proxy config > config.yaml
    """
    if context.invoked_subcommand is not None:
        return 0
    _require()
    app = _app(config_file)
    from segue.provider.catalogue import Catalogue
    from segue.provider.proxy import proxy_config, serve, to_yaml
    from segue.system.files import write_atomic

    output = make_output()
    settings = app.loaded.settings
    folder = _folder(app)
    key, new = _master_key(folder)
    os.environ[KEY_VARIABLE] = key
    path = folder / f"proxy-{port}.yaml"
    write_atomic(path, to_yaml(proxy_config(settings, Catalogue.read(settings))).encode())
    if new:
        output.note(f"The key for clients, kept in {folder / _KEY_FILE}: {key}")
    output.note(f"Serving on http://{host}:{port}/v1 — the key for clients: segue proxy key")
    serve(path, host, port)
    return 0


@proxy.command("config")
@options("config", "json")
def config(config_file: Path | None, as_json: bool) -> int:
    """Print a config.yaml for a LiteLLM proxy that you run yourself.

    \b
    Examples:
      segue proxy config > config.yaml
      LITELLM_MASTER_KEY=$(segue proxy key) litellm --config config.yaml --host 127.0.0.1
    """
    _require()
    from segue.provider.catalogue import Catalogue
    from segue.provider.proxy import proxy_config, to_yaml

    settings = _app(config_file).loaded.settings
    output = make_output(as_json)
    made = proxy_config(settings, Catalogue.read(settings))
    if as_json:
        output.data(made)
    else:
        output.text(to_yaml(made).rstrip("\n"))
    return 0


@proxy.command("key")
@options("config")
def key(config_file: Path | None) -> int:
    """Print the key that clients of the proxy need; it is made if there is none.

    \b
    Examples:
      OPENAI_API_KEY=$(segue proxy key) OPENAI_BASE_URL=http://127.0.0.1:4000/v1 your-client
    """
    found, _new = _master_key(_folder(_app(config_file)))
    make_output().text(found)
    return 0


def _app(config_file: Path | None) -> App:
    from segue.runtime.wiring import App

    if config_file is not None:
        # The models read the settings themselves, in whatever process the proxy puts them.
        os.environ["SEGUE_CONFIG"] = str(config_file.absolute())
    return App.load(None, config_file)


def _require() -> None:
    """Say what is missing before LiteLLM is imported: that takes seconds, or fails with its own words."""
    from importlib.util import find_spec

    from segue.domain.errors import ToolMissing

    if find_spec("litellm") is None:
        raise ToolMissing("LiteLLM is not installed.", hint=f"Install it: {INSTALL}")
    from segue.provider.proxy import require_proxy

    require_proxy()


def _folder(app: App) -> Path:
    from segue.runtime.wiring import own_folder
    from segue.system.files import private_folder

    own_folder(app.state_dir)
    return private_folder(app.state_dir / "provider")


def _master_key(folder: Path) -> tuple[str, bool]:
    """The key that clients need, and whether it was made just now; the environment counts first."""
    import secrets

    from segue.system.files import write_atomic

    given = os.environ.get(KEY_VARIABLE)
    path = folder / _KEY_FILE
    if given or path.exists():
        return given or path.read_text().strip(), False
    made = f"sk-segue-{secrets.token_urlsafe(24)}"
    write_atomic(path, f"{made}\n".encode())  # a file that it makes is its owner's alone
    return made, True
