"""`segue config`: list the settings, explain one, set one."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from segue.cli.options import CommandSettings, options
from segue.cli.terminal.output import Printer, short_paths
from segue.domain.errors import UsageError

if TYPE_CHECKING:
    from segue.domain.options import OptionField


@click.group()
def config() -> None:
    """List the settings, explain one, set one, and say where its value comes from.

    \b
    Examples:
      segue config list
      segue config explain limits.attempts
      segue config set checks '["pytest -q"]'
    """


@config.command("list")
@click.argument("word", required=False)
@click.option("--all", "every", is_flag=True, help="List also those that have their default.")
@options("repo", "config", "json", "color")
def list_(word: str | None, every: bool, settings: CommandSettings, output: Printer) -> None:
    """List the settings that somebody has set, with value and origin; with WORD, all whose name contains it.

    \b
    Examples:
      segue config list
      segue config list --all
      segue config list limits
      SEGUE_LIMITS__PHASE_TIMEOUT=600 segue config list timeout --json
    """
    from segue.config.load import show as show_value

    loaded = settings.look().loaded
    found = [row for row in loaded.rows() if word is None or word in row[0]]
    if word is not None and not found:
        raise _unknown(word, [row[0] for row in loaded.rows()])
    rows = [(path, show_value(value), origin) for path, value, origin in found]
    data = [dict(zip(("setting", "value", "origin"), row, strict=True)) for row in rows]
    if output.json:
        output.data(data)
        return
    shown = rows if every or word is not None else [row for row in rows if row[2] != "default"]
    if shown:
        output.table(
            ["setting", "value", "from"], [(path, value, short_paths(of)) for path, value, of in shown]
        )
    if left := len(rows) - len(shown):
        others = f"{left} settings have their default" if shown else f"All {left} settings have their default"
        output.note(f"{others}: segue config list --all   About one: segue config explain NAME")


@config.command("explain")
@click.argument("name")
@options("repo", "config", "json", "color")
def explain(name: str, settings: CommandSettings, output: Printer) -> None:
    """Say what setting NAME does, its default, its value here and how to change it.

    \b
    Examples:
      segue config explain require
      segue config explain limits.cost_usd --json
    """
    from segue.config.load import show as show_value
    from segue.config.needed import needed_by

    loaded = settings.look().loaded
    field = _find(name)
    value = next((value for path, value, _ in loaded.rows() if path == name), field.default)
    data = {
        "setting": name,
        "meaning": field.description,
        "needed_by": needed_by(name),
        "default": show_value(field.default),
        "value": show_value(value),
        "origin": loaded.origin(name),
        "variable": f"SEGUE_{name.upper().replace('.', '__')}",
    }
    if output.json:
        output.data(data)
        return
    output.text(f"{name}: {field.description}")
    output.text(f"  for      {data['needed_by']}")
    output.text(f"  here     {data['value'] or 'none'}  (from: {data['origin']})")
    output.text(f"  default  {data['default'] or 'none'}")
    output.text(f"  set it   segue config set {name} VALUE   or the variable {data['variable']}")


@config.command("origin")
@click.argument("name")
@options("repo", "config", "json", "color")
def origin(name: str, settings: CommandSettings, output: Printer) -> None:
    """Print where the value of setting NAME comes from.

    \b
    Examples:
      segue config origin agent
    """
    _find(name)
    found = settings.look().loaded.origin(name)
    output.result({"setting": name, "origin": found}, found)


@config.command("set")
@click.argument("name")
@click.argument("value")
@click.option("--user", is_flag=True, help="For all projects, in your own config.toml.")
@options("repo", "config", "json")
def set_(name: str, value: str, user: bool, settings: CommandSettings, output: Printer) -> None:
    """Set NAME to VALUE in the project's file; every other line stays as it is.

    VALUE is written as in TOML; a text needs no quotes.

    \b
    Examples:
      segue config set jobs 4
      segue config set checks '["pytest -q"]'
      segue config set agent claude --user
    """
    from segue.cli.setup.init import trust_file
    from segue.config.edit import set_value
    from segue.config.files import find_project_file, user_file
    from segue.config.load import LoadedSettings, load
    from segue.config.settings import Settings
    from segue.config.trust import VARIABLE
    from segue.domain.options import SHARED_FILE
    from segue.runtime.tables import check_tables, known_names

    _refuse_table(name, _find(name), value)
    folder = (settings.repo or Path.cwd()).absolute()
    named = settings.config and settings.config.absolute()
    try:
        before = load(folder, config=named)
    except UsageError:  # a wrong value, which may be the one that is corrected
        before = LoadedSettings(Settings(), found=find_project_file(folder))
    target = user_file() if user else settings.config or before.found.path or folder / "segue.toml"
    path = [*(("tool", "segue") if target.name == SHARED_FILE else ()), *name.split(".")]
    old = target.read_text("utf-8") if target.exists() else ""
    new = set_value(old, path, _as_toml(value))
    if new is None:
        raise UsageError(
            f"{target} is written in a way in which {name} cannot be set from here.",
            kept="It was not changed.",
            hint=f"Edit it: {name} = {_as_toml(value)}",
        )
    _write(target, new)
    try:
        # What lacks trust is checked, too.
        trusting = {**os.environ, VARIABLE: "1"}
        check_tables(load(folder, config=named, environ=trusting, known=known_names))
    except UsageError:
        _write(target, old) if old else target.unlink()
        raise
    if not user and (before.project is None or before.project.is_trusted):
        trust_file(target)
    output.result({"setting": name, "file": str(target)}, f"Set {name} in {target}.")


def _refuse_table(name: str, field: OptionField, value: str) -> None:
    """Refuse a single value for a setting that is a table of names."""
    from collections.abc import Mapping

    single = name.removesuffix("s")
    if isinstance(field.default, Mapping) and not value.strip().startswith("{"):
        hint = f"Type: segue config set {single} {value}" if single != name and _is_setting(single) else ""
        raise UsageError(
            f"{name} is a table: it takes names with values.", hint=hint or f"segue config explain {name}"
        )


def _is_setting(name: str) -> bool:
    from segue.config.part_tables import list_settings

    return name in dict(list_settings())


def _write(target: Path, text: str) -> None:
    from segue.system.files import write_atomic

    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(target, text.encode())
    except OSError as error:
        raise UsageError(
            f"{target} cannot be written: {error.strerror}.",
            kept="It was not changed.",
            hint="Name another file with --config",
        ) from None


def _as_toml(value: str) -> str:
    import tomllib

    try:
        tomllib.loads(f"value = {value}")
    except tomllib.TOMLDecodeError:
        return json.dumps(value, ensure_ascii=False)
    return value


def _find(name: str) -> OptionField:
    """Return what is known about a setting."""
    from segue.config.part_tables import list_settings

    known = dict(list_settings())
    if name not in known:
        raise _unknown(name, known)
    return known[name]


def _unknown(name: str, known: Iterable[str]) -> UsageError:
    from segue.cli.mistakes import words
    from segue.domain.text import suggest

    names = list(known)
    called = words.meanings(words.SETTINGS, f"--{name}".replace("_", "-"))
    ending = [one for one in names if name in one.split(".")]
    if any(one.startswith(f"{name}.") for one in names):
        return UsageError(f"{name} is a table of settings.", hint=f"segue config list {name}.")
    if name.startswith("agents."):
        agent = name.split(".")[1]
        return UsageError(
            f"{name} is set in segue.toml, in the table [agents.{agent}].",
            hint=f"Its options: segue agent schema {agent}",
        )
    last = [one for one in names if one == name.rpartition(".")[2]]
    near = next((f" Did you mean {one}?" for one in (*called, *ending, *last)), "") or suggest(
        name, names, "{}", 0.7
    )
    return UsageError(f"There is no setting {name!r}.{near}", hint="segue config list")


@config.command("schema")
def schema() -> None:
    """Print the JSON Schema of the settings, for editors.

    \b
    Examples:
      segue config schema > segue.schema.json
    """
    from segue.config.part_tables import all_settings
    from segue.domain.options import options_schema

    click.echo(json.dumps(options_schema(all_settings()), indent=2))
