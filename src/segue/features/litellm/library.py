"""Agents as LiteLLM models: importing this package registers them.

    import segue.provider  # before LiteLLM, which downloads its price list otherwise
    import litellm

    litellm.completion(model="claude-cli/sonnet", messages=[{"role": "user", "content": "Hi!"}])

Models are `AGENT-cli/MODEL` for every agent on this machine, `composer-cli/MODEL` for Cursor's, and
`composite/profile/NAME`.

A call goes one way: handler → request → engine → compose → cli_models → agent; then response or failures.
"""

from __future__ import annotations

import importlib.util
import os
import threading
from pathlib import Path

if importlib.util.find_spec("litellm") is None:
    from segue.system.extras import install_line

    raise ModuleNotFoundError(
        f"LiteLLM is not installed. Install it: {install_line('litellm')}", name="litellm"
    )

# Must be set before LiteLLM is imported, or it downloads lists of prices and headers.
os.environ |= {
    f"LITELLM_LOCAL_{name}": "True"
    for name in (
        "MODEL_COST_MAP",
        "ANTHROPIC_BETA_HEADERS",
        "BLOG_POSTS",
        "POLICY_TEMPLATES",
        "AUTOROUTER_PRESETS",
    )
}

from segue.config.load import LoadedSettings
from segue.domain.errors import SegueError
from segue.features.litellm.catalogue import COMPOSITE, find_providers
from segue.features.litellm.engine import Engine
from segue.features.litellm.handler import LiteLLMHandler, register_with_litellm
from segue.runtime.app import App

__all__ = ["close", "handler", "register"]

_lock = threading.Lock()
_config: Path | None = None
_engine: Engine | None = None


def register(config: Path | None = None) -> None:
    """Register the models with LiteLLM (idempotent). `config` names the settings file for later calls."""
    global _config
    if config is not None and config != _config:
        close()
        _config = config
    register_with_litellm(handler, (*find_providers(_look()), COMPOSITE))


def _look() -> LoadedSettings | None:
    """Return the settings, which may define agents; None if they cannot be read: the first call says why."""
    try:
        return App.load(None, _config, need="nothing").loaded
    except SegueError:
        return None


def close() -> None:
    """Stop all agents and write the remaining traces, as on exit; the next call starts a new engine."""
    global _engine
    with _lock:
        if _engine is not None:
            _engine.close()
        _engine = None


def _get_engine() -> Engine:
    """Return this process's engine; the first call creates it from the settings found here."""
    global _engine
    with _lock:
        if _engine is None or not _engine.is_usable:
            _engine = Engine(App.load(None, _config))
        return _engine


handler = LiteLLMHandler(_get_engine)
"""The handler LiteLLM calls; a proxy's config.yaml names it as `segue.provider.handler`."""

register()
