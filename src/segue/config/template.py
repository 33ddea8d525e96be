"""The commented `segue.toml` that `segue init` writes, made from the settings themselves."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

from segue.config.settings import Settings

_HEAD = """\
# Settings of Segue for this project. Every line shows a default or an example: remove the `# ` to change it.
# `segue config show` prints what holds and where it comes from.
"""
_AGENTS = """
# [agents.command]
# argv = ["./agent.sh"]        # any program: the prompt comes on stdin, it runs in the repository
"""


def template() -> str:
    """The file's text."""
    tables = [(name, f) for name, f in Settings.model_fields.items() if _is_table(f.annotation)]
    plain = [(name, f) for name, f in Settings.model_fields.items() if not _is_table(f.annotation)]
    lines = [_HEAD, *(_line(name, f) for name, f in plain if name != "agents")]
    for name, info in tables:
        model: type[BaseModel] = info.annotation  # type: ignore[assignment]
        lines += ["", f"# [{name}]", *(_line(key, f) for key, f in model.model_fields.items())]
    return "\n".join(lines) + "\n" + _AGENTS


def _is_table(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _line(name: str, info: Any) -> str:
    examples = {"agent": "scripted", "model": "", "state_dir": ".segue", "database_url": "postgresql://…"}
    default = info.default if info.default is not None else examples.get(name, 0)
    return f"# {name} = {json.dumps(default, ensure_ascii=False)}".ljust(36) + f"  # {info.description}"
