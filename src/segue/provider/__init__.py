"""Agents as LiteLLM models: importing this package registers them.

    import litellm
    import segue.provider

    litellm.completion(model="claude-cli/sonnet", messages=[{"role": "user", "content": "Hi!"}])

Models are `composer-cli/MODEL`, `claude-cli/MODEL`, `codex-cli/MODEL` and `composite/profile/NAME`.
"""

from __future__ import annotations

import importlib.util
import os
import threading
from pathlib import Path

INSTALL = "pip install 'segue[litellm]'"

if importlib.util.find_spec("litellm") is None:
    raise ModuleNotFoundError(f"LiteLLM is not installed. Install it: {INSTALL}", name="litellm")

# Before LiteLLM is imported: it would fetch its list of prices from the network.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

from segue.provider.engine import Engine  # noqa: E402
from segue.provider.models import Handler, register_with_litellm  # noqa: E402
from segue.runtime.app import App  # noqa: E402

__all__ = ["close", "handler", "register"]

_making = threading.Lock()
_config: Path | None = None
_engine: Engine | None = None


def register(config: Path | None = None) -> None:
    """Make the models known to LiteLLM; again is harmless. `config` names a settings file for later calls."""
    global _config
    if config is not None and config != _config:
        close()
        _config = config
    register_with_litellm(handler)


def close() -> None:
    """End all agents and write the last traces, as the end of the process does; a later call starts anew."""
    global _engine
    with _making:
        if _engine is not None:
            _engine.close()
        _engine = None


def _running() -> Engine:
    """The engine of this process; it is made with the first call, from the settings that hold here."""
    global _engine
    with _making:
        if _engine is None or not _engine.usable:
            _engine = Engine(App.load(None, _config))
        return _engine


handler = Handler(_running)
"""What LiteLLM calls; in a proxy's config.yaml it is `segue.provider.handler`."""

register()
