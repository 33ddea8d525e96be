"""The commented `segue.toml` that `segue init` writes, made from the settings themselves."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from segue.config.settings import Settings

_HEAD = """\
# Settings of Segue for this project. Every line shows a default or an example: remove the `# ` to change it.
# `segue config show` prints what holds and where it comes from.
"""
_AGENTS = """
# [agents.command]
# argv = ["./agent.sh"]                 # any program: the prompt comes on stdin, it runs in the repository
"""
_USERS_OWN = {"relay"}
"""Tables that count in the user's own file only: see docs/relay.md."""

_EXAMPLES = {
    "agent": "scripted",
    "model": "",
    "flow": "plan",
    "source": "plan.md",
    "repo": ".",
    "state_dir": ".segue",
    "database_url": "postgresql://…",
    "reviewer": "stet",
    "file": "segue.log",
    "judged_by": "agent",
    "plan": "claude:opus",
    "execute": "cursor,claude",
    "address": "claude",
    "verify": "codex",
    "research": "claude",
    "resolutions": 5,
    "service": "searxng",
    "base_url": "http://127.0.0.1:8080",
    "api_key_env": "BRAVE_API_KEY",
    "subagent": "cursor-cloud",
    "relay_url": "http://127.0.0.1:8765",
    "relay_token_file": "relay.token",
    "completion_url": "https://example.com/done",
    "url": "https://hooks.slack.com/services/…",
}


def template() -> str:
    """The file's text."""
    fields = Settings.model_fields
    lines = [_HEAD, *(_line(name, info) for name, info in fields.items() if info.default_factory is None)]
    for name, info in fields.items():
        if _is_table(info) and name not in _USERS_OWN:
            lines += ["", f"# [{name}]", *_table(type(info.default))]
    return "\n".join(line for line in lines if line is not None) + "\n" + _AGENTS


def _table(model: type[BaseModel]) -> list[str | None]:
    return [_line(name, info) for name, info in model.model_fields.items()]


def _is_table(info: FieldInfo) -> bool:
    return isinstance(info.default, BaseModel)


def _line(name: str, info: FieldInfo) -> str | None:
    if _is_table(info):
        return None
    value: Any = info.default if info.default is not None else _EXAMPLES.get(name, 10)
    return f"# {name} = {json.dumps(value, ensure_ascii=False)}".ljust(40) + f"# {info.description}"
