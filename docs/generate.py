"""Rewrite the lists of settings, options, events and tables in the pages from the code: `make docs`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args, get_type_hints

import click

from segue.agents.acp.agent import AcpOptions
from segue.agents.acp.profiles import Profile
from segue.agents.claude.agent import ClaudeOptions
from segue.agents.codex.agent import CodexOptions
from segue.agents.cursor.agent import CursorOptions
from segue.agents.cursor_cloud.api import CursorCloudOptions
from segue.config.feature_tables import list_settings
from segue.config.git import GitSettings
from segue.config.settings import DiagnosticSettings, SandboxSettings
from segue.deliveries.hosting import PullRequestOptions
from segue.deliveries.local import BranchOptions
from segue.domain.events import all_events
from segue.domain.options import OptionField
from segue.domain.scenario import RequestOptions, Scenario
from segue.judges.options import JudgeSettings
from segue.plugins import TABLES, VARIANTS, import_name
from segue.reviewers.options import CommandReviewOptions
from segue.runtime.registry import load
from segue.sources.github.options import GithubSettings
from segue.store.flat import FLAT_TABLES

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(
    r"(?P<open><!-- (?P<name>settings|options|events|tables)(?:: (?P<words>[a-z./ -]+?))? -->\n)"
    r".*?(?P<close><!-- /(?P=name) -->)",
    re.DOTALL,
)
"""A generated part between its two markers."""
OPTIONS: dict[str, type[Any]] = {
    "acp": Profile,
    "agents.gemini": AcpOptions,
    "agents.claude": ClaudeOptions,
    "agents.codex": CodexOptions,
    "agents.cursor": CursorOptions,
    "agents.cursor-cloud": CursorCloudOptions,
    "deliveries.branch": BranchOptions,
    "deliveries.pr": PullRequestOptions,
    "diagnostics": DiagnosticSettings,
    "git": GitSettings,
    "github": GithubSettings,
    "judge": JudgeSettings,
    "proof.scenarios": Scenario,
    "proof.scenarios.request": RequestOptions,
    "sandbox": SandboxSettings,
    "reviewers.command": CommandReviewOptions,
}
"""The tables of options that pages show; those of features are found by name."""


def pages() -> list[Path]:
    """Return every page."""
    top = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")]
    return [*top, *sorted((ROOT / "docs").rglob("*.md"))]


def find_options(words: str) -> type[Any]:
    """Return a table of options; of a feature: `[NAME]`, or one in it."""
    if words in OPTIONS:
        return OPTIONS[words]
    first, _, name = words.partition(".")
    if first in VARIANTS:
        options: type[Any] = load(first, name).Options
        return options
    kind = import_name(TABLES[first].where)
    found: type[Any] = get_args(get_type_hints(kind)[name])[1] if name else kind
    return found


def _settings_table(_words: str) -> str:
    rows = [(f"`{name}`", _default(field), field.description) for name, field in list_settings()]
    return _table(("setting", "default", "meaning"), rows)


def _options_table(words: str) -> str:
    options = list_settings(find_options(words))
    return _table(
        ("option", "default", "meaning"),
        [(f"`{name}`", _default(field), field.description) for name, field in options],
    )


def _default(field: OptionField) -> str:
    if field.required:
        return "required"
    return "not set" if field.default in (None, {}, [], ()) else f"`{json.dumps(field.default)}`"


def _event_table(_words: str) -> str:
    rows = []
    for name, kind in all_events().items():
        fields = ", ".join(f"`{field}`" for field in kind.__struct_encode_fields__)
        rows.append((f"`{name}`", (kind.__doc__ or "").partition("\n")[0].removesuffix("."), fields))
    return _table(("type", "meaning", "data"), rows)


def _flat_tables(_words: str) -> str:
    return "".join(
        f"- `{table.view}`, {table.about}: {', '.join(f'`{column.name}`' for column in table.columns)}\n"
        for table in FLAT_TABLES.values()
    )


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


_MAKERS: dict[str, Callable[[str], str]] = {
    "settings": _settings_table,
    "options": _options_table,
    "events": _event_table,
    "tables": _flat_tables,
}


def rewrite(text: str) -> str:
    """Return a page with its generated parts as the code has them now."""
    return BLOCK.sub(
        lambda found: found["open"] + _MAKERS[found["name"]](found["words"] or "") + found["close"], text
    )


def main() -> None:
    """Rewrite the pages that changed, and print their names."""
    for path in pages():
        text = path.read_text("utf-8")
        if (new := rewrite(text)) != text:
            path.write_text(new, "utf-8")
            click.echo(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
