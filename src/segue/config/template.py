"""The commented `segue.toml` that `segue init` writes, made from the settings themselves."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from segue.config.part_tables import all_settings
from segue.config.settings import Settings
from segue.domain.installed import known_table
from segue.domain.options import OptionField, option_fields

_HEAD = """\
# Settings of Segue for this project. Every line shows a default or an example: remove the `# ` to change it.
# `segue config show` prints every value and where it comes from.
"""
_AGENTS = """
# [agents.command]
# argv = ["./agent.sh"]                 # any program: it reads the prompt on stdin and runs in the repository
"""
EXAMPLES = {
    "agent": "claude",
    "model": "opus",
    "flow": "plan",
    "source": "plan.md",
    "source_kind": "planfile",
    "repo": ".",
    "base": "main",
    "delivery": "pr",
    "criteria": ["constitution"],
    "task_list": 1,
    "judged_by": "agent",
    "require": "checked",
    "gates": ["checkpoint"],
    "summary": "summary.md",
    "control_files": ["scripts/check/**"],
    "known_failures": ["tests/test_old.py::*"],
    "check_setup": ["npm ci"],
    "continue_with_remaining_tasks": True,
    "max_consecutive_task_failures": 3,
    "sandbox.write": ["~/.terraform.d"],
    "sandbox.runtime": "podman",
    "sandbox.image": "my-agents:1",
    "state_dir": ".segue",
    "database_url": "postgresql://…",
    "checks": ["pytest -q"],
    "roles.plan": "claude:opus",
    "roles.execute": ["cursor", "claude"],
    "roles.address": "claude",
    "roles.test": "codex",
    "roles.verify": "codex",
    "roles.research": "claude",
    "github.api_url": "https://github.example.com/api/v3",
    "limits.run_timeout": 14400,
    "limits.resolutions": 5,
    "limits.slots": 4,
    "limits.launches": 100,
    "limits.tokens": 5_000_000,
    "limits.cost_usd": 20,
    "store.patience": 3600,
    "review.reviewer": "stet",
    "final.review": ["stet start main"],
    "final.audit": ["npm audit"],
    "log.file": "segue.log",
}
"""Examples for settings that are unset or empty by default."""


def template() -> str:
    """Return the text of the file."""
    return "\n".join([_HEAD, *_write_table(all_settings(), "")]) + "\n" + _AGENTS


def _write_table(kind: type[Any], prefix: str) -> Iterator[str]:
    """Yield the lines of a table: its values first, then the tables inside it."""
    fields = option_fields(kind)
    for field in fields:
        if not field.is_table and not isinstance(field.default, dict):
            yield _write_line(field, prefix, getattr(kind, "examples", {}))
    for field in fields:
        if field.is_table and not _is_personal(f"{prefix}{field.name}"):
            yield from ("", f"# [{prefix}{field.name}]")
            yield from _write_table(field.type, f"{prefix}{field.name}.")


def _is_personal(name: str) -> bool:
    table = None if "." in name or name in Settings.__struct_fields__ else known_table(name)
    return table is not None and table.personal


def _write_line(field: OptionField, prefix: str, examples: Mapping[str, Any]) -> str:
    """Return a setting with its example, its default, or an empty text where it has neither."""
    value = EXAMPLES.get(prefix + field.name, examples.get(field.name, field.default))
    value = "" if value is None else value
    return f"# {field.name} = {json.dumps(value, ensure_ascii=False)}".ljust(40) + f"# {field.description}"
