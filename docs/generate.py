"""Rewrite the generated parts of the documentation from the code: `make docs`; with --check only compare."""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args, get_type_hints

import click
from docs.limits import ATTEMPTS, NOT_STOPPED, SANDBOXES, VISIBLE
from docs.needed import COMMANDS, find_user
from docs.seeds import seed_rows
from docs.vendors import PROGRAMS, ending_rows
from msgspec.structs import asdict

from segue import public
from segue.agents.acp.agent import AcpOptions
from segue.agents.acp.profiles import Profile
from segue.agents.claude.agent import ClaudeOptions
from segue.agents.codex.agent import CodexOptions
from segue.agents.cursor.agent import CursorOptions
from segue.agents.cursor_cloud.api import CursorCloudOptions
from segue.cli.help import EXIT_CODES
from segue.cli.main import cli
from segue.config.git import GitSettings
from segue.config.load import LoadedSettings
from segue.config.needed import needed_by
from segue.config.part_tables import list_settings
from segue.config.settings import DiagnosticSettings, SandboxSettings, Settings
from segue.config.trust import HARMLESS, is_harmless
from segue.deliveries.hosting import PullRequestOptions
from segue.domain.errors import UsageError
from segue.domain.events import all_events
from segue.domain.installed import BUILT_IN as BUILT_IN_PARTS
from segue.domain.installed import GROUP, find_table, import_name, is_installed
from segue.domain.options import OptionField, read_options
from segue.domain.part import Part, PartCommand, PartFiles, PartTable
from segue.domain.proof import ChangedTest, IndependentTests, Proof, Tampering
from segue.domain.results import OUTPUTS, WorkNote
from segue.domain.scenario import RequestOptions, Scenario
from segue.domain.statement import MARKS, MEANINGS, describe_proof
from segue.flow.phase import PHASES, PRESETS, Phase
from segue.judges.options import JudgeSettings
from segue.prompts.handover import describe_handover
from segue.prompts.task import execute_prompt
from segue.reports.card.card import CheckCard, ContestedCard, CriterionCard, ProofCard
from segue.reviewers.options import CommandReviewOptions
from segue.runtime.app import App
from segue.runtime.registry import BUILT_IN
from segue.runtime.registry import load as load_variant
from segue.runtime.wiring import make_agent
from segue.sources.github.options import GithubSettings
from segue.sources.speckit.source import SpecKit
from segue.store.flat import FLAT_TABLES
from segue.system.process.processes import Processes

ROOT = Path(__file__).resolve().parent.parent
INDEX = Path("src/segue/domain/parts.json")
WIDTH = 90
"""Help is wrapped here, whatever the terminal of the person who runs this."""

BLOCK = re.compile(
    r"(?P<open><!-- (?P<name>abilities"
    r"|commands|settings|options|needed|exit-codes|events|outputs|flows|phases|prompt|example"
    r"|endings|sandbox|harmless|tables|views|levels|marks|card|script|queries|seeds|sizing|public)"
    r"(?:: (?P<words>[a-z./ -]+?))? -->\n)"
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
"""The tables of options that pages show."""


def pages() -> list[Path]:
    """Return every page that may contain generated parts."""
    top = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")]
    return [*top, *sorted((ROOT / "docs").rglob("*.md"))]


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield every command and group with the words that call it, `segue` itself first."""
    yield from _walk("segue", cli)


def _walk(words: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=words)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from _walk(f"{words} {name}", found)


def help_text(words: str) -> str:
    """Return what `WORDS --help` prints on a terminal of the fixed width."""
    context = click.Context(cli, info_name="segue", terminal_width=WIDTH, **cli.context_settings)
    command: click.Command = cli
    for word in words.split()[1:]:
        found = command.get_command(context, word) if isinstance(command, click.Group) else None
        if found is None:
            raise SystemExit(f"docs/generate.py: there is no command {words!r}")
        command = found
        context = click.Context(command, info_name=word, parent=context)
    return f"```text\n{command.get_help(context)}\n```\n"


def _command_sections(_words: str) -> str:
    """Return a section per command with its help."""
    return "\n" + "\n".join(f"## {words}\n\n{help_text(words)}" for words, _ in commands()) + "\n"


def variable(name: str) -> str:
    """Return the environment variable of a setting."""
    return "SEGUE_" + name.upper().replace(".", "__")


def _settings_table(_words: str) -> str:
    rows = [
        (f"`{name}`", _default(field), f"`{variable(name)}`", field.description, needed_by(name))
        for name, field in list_settings()
    ]
    return _table(("setting", "default", "environment", "meaning", "who needs it"), rows)


def _default(field: OptionField) -> str:
    if field.required:
        return "required"
    return "not set" if field.default in (None, {}, [], ()) else f"`{json.dumps(field.default)}`"


def _options_table(words: str) -> str:
    kind = find_options(words)
    rows = [
        (f"`{name}`", _default(field), field.description, option_user(words, name))
        for name, field in list_settings(kind)
    ]
    return _table(("option", "default", "meaning", "who needs it"), rows)


def option_user(table: str, name: str) -> str:
    """Return who needs an option of a table; a table may also be one of settings."""
    return needed_by(f"{table}.{name}") if find_user(table, name) == "" else find_user(table, name)


def command_options() -> dict[str, list[str]]:
    """Return every option of the command line with the commands that take it."""
    found: dict[str, list[str]] = {}
    for words, command in commands():
        for one in command.params:
            if isinstance(one, click.Option) and not one.hidden:
                found.setdefault(max(one.opts, key=len), []).append(words)
    return dict(sorted(found.items()))


def _needed_table(_words: str) -> str:
    rows = [
        (f"`{name}`", _name_commands(taken), COMMANDS.get(name, ""))
        for name, taken in command_options().items()
    ]
    return _table(("option", "of", "who needs it"), rows)


def _name_commands(taken: list[str]) -> str:
    names = [f"`{words.removeprefix('segue ')}`" for words in taken[:4]]
    return ", ".join(names) + (f" and {len(taken) - 4} more" if len(taken) > 4 else "")


def find_options(words: str) -> type[Any]:
    """Return a table of options; of a part `[NAME]`, one in it, or `[agents.NAME]` for one of its agents."""
    if words in OPTIONS:
        return OPTIONS[words]
    first, _, name = words.partition(".")
    if first in BUILT_IN:
        options: type[Any] = load_variant(first, name).Options
        return options
    table = find_table(first)
    assert table is not None, words
    kind = import_name(table.where)
    found: type[Any] = get_args(get_type_hints(kind)[name])[1] if name else kind
    return found


def _exit_code_table(_words: str) -> str:
    return _table(("code", "meaning"), [(f"`{code}`", text) for code, text in EXIT_CODES.items()])


def _event_table(_words: str) -> str:
    return _table(
        ("type", "meaning", "data"), [(f"`{name}`", *_described(kind)) for name, kind in all_events().items()]
    )


def _output_table(_words: str) -> str:
    rows = [(f"`{kind.__name__}`", *_described(kind)) for kind in OUTPUTS]
    return _table(("output", "meaning", "fields"), rows)


def _described(kind: type[Any]) -> tuple[str, str]:
    """The first line of a type's docstring, and its fields as JSON names them."""
    meaning = (kind.__doc__ or "").partition("\n")[0].removesuffix(".")
    return meaning, ", ".join(f"`{name}`" for name in kind.__struct_encode_fields__)


def _card_table(_words: str) -> str:
    kinds = (ProofCard, CriterionCard, CheckCard, ChangedTest, ContestedCard, Tampering, IndependentTests)
    return _table(("object", "fields"), [_described(kind) for kind in kinds])


def _flow_table(_words: str) -> str:
    rows = [(f"`{name}`", " → ".join(f"`{phase}`" for phase in phases)) for name, phases in PRESETS.items()]
    return _table(("flow", "phases"), rows)


def _ending_table(_words: str) -> str:
    return _table(("what happens", *PROGRAMS.values()), ending_rows())


def _sandbox_table(words: str) -> str:
    if words == "places":
        return _table(("", *SANDBOXES.values()), [(what, *seen) for what, seen in VISIBLE.values()])
    sandboxes = list(NOT_STOPPED)
    rows = [
        (what, *("**not stopped**" if name in NOT_STOPPED[sandbox] else "stopped" for sandbox in sandboxes))
        for name, what in ATTEMPTS.items()
    ]
    return _table(("the agent tries to", *(f"`{sandbox}`" for sandbox in sandboxes)), rows)


def _phase_table(_words: str) -> str:
    rows = [
        (
            f"`{phase.name}`",
            f"`{phase.role}`" if phase.role else "–",
            "yes" if phase.edits else "no",
            _place(phase),
        )
        for phase in PHASES.values()
    ]
    return _table(("phase", "role of its agent", "edits files", "where"), rows)


def _prompt_of_example(_words: str) -> str:
    """Return the prompt for a task in the middle of the example, after some others."""
    root = ROOT / "examples" / "speckit"
    source = SpecKit(root / "specs" / "001-lending", root)
    task = next(task for task in source.look().tasks if task.key == "T013")
    names = "src/library/rules/due.py:\n  def due_date(lent: date) -> date"
    known = {
        "T011": WorkNote(("src/library/rules/due.py",), names, "Loans last 28 days; nothing is left to do."),
        "T012": WorkNote(("src/library/rules/limits.py",)),
    }
    earlier = describe_handover(known, task, 4096)
    prompt = execute_prompt(task, source.context(task), nonce="example", earlier=earlier)
    return f"```text\n{prompt.text}```\n"


def _quote_file(path: str) -> str:
    """Return a file of the repository as a code block; that of a simulator's script says whose it is."""
    file = Path(path)
    info = file.suffix.lstrip(".") + f" {file.stem}" * (file.parent.name == "simulators")
    return f"```{info}\n{(ROOT / path).read_text('utf-8')}```\n"


def _harmless_settings(_words: str) -> str:
    """Return the settings that need no trust, in the order of the table of settings."""
    known = [name for name, _ in list_settings()]
    names = [name for name in known if is_harmless(name, "x")]
    tables = sorted(name for name in HARMLESS if name.endswith(".*"))
    shown = [name for name in names if not any(name.startswith(table[:-1]) for table in tables)]
    return ", ".join(f"`{name}`" for name in (*shown, *tables)) + "\n"


def _place(phase: Phase) -> str:
    if phase.in_flows:
        return "in flows"
    within = " and ".join(f"`{name}`" for name in phase.within)
    if within:
        return f"within {within}"
    return "after the last of the flow, with `jobs`" if phase.after else "before the first task"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def _flat_tables(_words: str) -> str:
    """Return every flat table with its columns and its example of `tables.sql`."""
    examples = (ROOT / "docs" / "reference" / "tables.sql").read_text("utf-8").strip().split("\n\n")
    parts = []
    for table, example in zip(FLAT_TABLES.values(), examples, strict=True):
        columns = _table(
            ("column", "type", "meaning"),
            [(f"`{column.name}`", column.type, column.meaning) for column in table.columns],
        )
        parts.append(f"`{table.view}`, {table.about}:\n\n{columns}\n```sql table\n{example}\n```\n")
    return "\n" + "\n".join(parts) + "\n"


def _view_list(words: str) -> str:
    from docs.scripts import JOURNAL, VIEWS, view_columns

    found = view_columns(JOURNAL if words == "journal" else VIEWS)
    return "\n" + "\n".join(f"{text}\n" for text in found) + "\n"


def _level_table(_words: str) -> str:
    rows = [
        (f"`{level}`", describe_proof(Proof(level=level)), meaning) for level, meaning in MEANINGS.items()
    ]
    return _table(("level", "shown as", "what is known"), rows)


def _mark_table(_words: str) -> str:
    return _table(("mark", "what is known"), [(f"*{name}*", meaning) for name, meaning in MARKS.items()])


def _script_table(words: str) -> str:
    from docs.scripts import script_words

    return _table(("word", "meaning"), [(f"`{name}`", text) for name, text in script_words(words).items()])


def _query_table(_words: str) -> str:
    from docs.scripts import query_meanings

    return _table(("query", "gives"), list(query_meanings().items()))


def _sizing_table(_words: str) -> str:
    from bench.fleet_sizes import Costs, sizing_table

    return sizing_table(Costs()).rstrip("\n") + "\n"


def _ability_table(_words: str) -> str:
    """Return what each agent can do."""
    chosen = read_options(Settings, {"agents": {"command": {"argv": ["true"]}}})
    app = App(LoadedSettings(chosen), ROOT)
    services = app.services(Processes())
    agents = [make_agent(name, app.loaded, services) for name in sorted(BUILT_IN["agents"])]
    able = {agent.name: [name for name, has in asdict(agent.can).items() if has] for agent in agents}
    rows = [(f"`{name}`", ", ".join(f"`{ability}`" for ability in can)) for name, can in able.items()]
    return _table(("agent", "can"), rows)


def _public_table(_: str) -> str:
    """Return every public name with the first sentence of its description."""
    names = sorted(public.__all__, key=str.lower)
    described = [(name, inspect.getdoc(getattr(public, name)) or "") for name in names]
    return _table(("name", "what it is"), [(f"`{name}`", text.splitlines()[0]) for name, text in described])


_MAKERS: dict[str, Callable[[str], str]] = {
    "abilities": _ability_table,
    "commands": _command_sections,
    "settings": _settings_table,
    "options": _options_table,
    "needed": _needed_table,
    "exit-codes": _exit_code_table,
    "events": _event_table,
    "outputs": _output_table,
    "flows": _flow_table,
    "sandbox": _sandbox_table,
    "endings": _ending_table,
    "phases": _phase_table,
    "prompt": _prompt_of_example,
    "example": _quote_file,
    "harmless": _harmless_settings,
    "tables": _flat_tables,
    "views": _view_list,
    "levels": _level_table,
    "marks": _mark_table,
    "card": _card_table,
    "script": _script_table,
    "queries": _query_table,
    "seeds": lambda _words: _table(("document", "requirement (tests)"), seed_rows()),
    "sizing": _sizing_table,
    "public": _public_table,
}


def rewritten(text: str) -> str:
    """Return the page with its generated parts as the code has them now."""

    def fill(found: re.Match[str]) -> str:
        try:
            made = _MAKERS[found["name"]](found["words"] or "")
        except UsageError:  # about a part that is not installed: it stays as it is
            return found[0]
        return found["open"] + made + found["close"]

    return BLOCK.sub(fill, text)


def fresh() -> dict[Path, str]:
    """Return every page, the manual page and the completion scripts as they should be."""
    from docs.manual import shared_files

    texts = {page: rewritten(page.read_text("utf-8")) for page in pages()}
    texts[ROOT / INDEX] = part_index()
    return texts | {ROOT / path: text for path, text in shared_files(commands()).items()}


def part_index() -> str:
    """Return the list of the built-in parts, and of those whose folders were deleted."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    found = [
        import_name(where) if is_installed(name) else BUILT_IN_PARTS[name]
        for name, where in sorted(project["entry-points"][GROUP].items())
    ]
    return json.dumps(_plain(found), indent=1, ensure_ascii=False) + "\n"


def _plain(value: Any) -> Any:
    """Return what describes a part as JSON values, without fields that have their default."""
    if isinstance(value, Part | PartCommand | PartFiles | PartTable):
        given = [one for one in value._fields if getattr(value, one) != value._field_defaults.get(one)]
        return {one: _plain(getattr(value, one)) for one in given}
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return list(map(_plain, value)) if isinstance(value, tuple | list) else value


def stale() -> list[Path]:
    """Return the files that are out of date."""
    return [path for path, text in fresh().items() if _differs(path, text)]


def _differs(path: Path, text: str) -> bool:
    return not path.exists() or path.read_text("utf-8") != text


def main(arguments: list[str]) -> int:
    """Rewrite the files, or with --check name those that are out of date."""
    if "--check" not in arguments and part_index() != (ROOT / INDEX).read_text("utf-8"):
        (ROOT / INDEX).write_text(part_index(), "utf-8")
        click.echo(INDEX)
        # The pages show what the new index says.
        os.execv(sys.executable, [sys.executable, "-m", "docs.generate", *sys.argv[1:]])  # noqa: S606
    changed = {path: text for path, text in fresh().items() if _differs(path, text)}
    for path, text in changed.items():
        if "--check" not in arguments:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        click.echo(path.relative_to(ROOT))
    return 1 if changed and "--check" in arguments else 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main(sys.argv[1:]))
