"""Help and typos: what a user sees before the first run."""

from __future__ import annotations

import re

import click
import pytest
from docs import generate

from segue import __version__
from segue.cli.main import FIRST, list_rest, shown_groups
from segue.cli.run.run import SECTIONS, run
from tests.cli.place import Place
from tests.cli.test_display import lines_of, shown

ALL = dict(generate.commands())


def test_commands_are_grouped_in_the_help(place: Place) -> None:
    text = place.segue("--help").stdout
    lines = text.splitlines()
    assert len(lines) <= 40
    at = lines.index("Commands:") + 1
    assert tuple(line.split()[0] for line in lines[at : at + len(FIRST)]) == FIRST
    commands = {name: text for group in shown_groups().values() for name, text in group.items()}
    assert [name for name in commands if not re.search(rf"(?m)^  {name} |[ ,]{name}(?:,|$)", text)] == []
    for word, rest in list_rest().items():
        listed = place.segue("help", word).stdout
        assert all(f"segue {name}" in listed and text[:40] in listed for name, text in rest.items()), word
    assert all(text.endswith(".") and len(text) <= 66 for text in commands.values())


def test_the_options_of_run_are_in_sections() -> None:
    left = {option.opts[-1] for option in run.params if isinstance(option, click.Option)}
    named = [name for names in SECTIONS.values() for name in names]
    assert sorted(named) == sorted({*left, "--help"})
    assert len(SECTIONS["Most used"]) == 6
    text = generate.help_text("segue run")
    assert text.index("Most used:") < text.index("What to run:")


def test_every_help_has_an_example() -> None:
    texts = {words: generate.help_text(words) for words in ALL}
    assert [words for words in ALL if not re.search(r"Examples:\n +\S*.*segue", texts[words])] == []


def test_every_option_is_explained() -> None:
    options = [(words, option) for words, command in ALL.items() for option in command.params]
    missing = [(w, o.name) for w, o in options if isinstance(o, click.Option) and not o.help]
    assert missing == []


def test_an_option_has_the_same_short_form_in_every_command() -> None:
    forms: dict[str, set[str]] = {}
    for command in ALL.values():
        for option in (one for one in command.params if isinstance(one, click.Option)):
            if option.name != "named":  # a simulator's --repo NAME=PATH is no folder to work in
                short = next((word for word in option.opts if not word.startswith("--")), "")
                forms.setdefault(option.opts[-1], set()).add(short)
    assert [name for name, short in forms.items() if len(short) > 1] == []


def test_help_is_a_command_too(place: Place) -> None:
    assert place.segue("help").stdout.startswith(place.segue("--help").stdout)
    assert place.segue("help", "db", "export").stdout == place.segue("db", "export", "--help").stdout
    assert place.segue("--version").stdout == f"segue {__version__}\n"
    assert "130   interrupted" in place.segue("help", "exit-codes").stdout


@pytest.mark.parametrize(
    ("words", "nearest"),
    [
        (["stauts"], "`segue status`"),
        (["help", "rum"], "`segue run`"),
        (["help", "db", "exprt"], "`segue db export`"),
        (["help", "sandbx"], "`segue help sandbox`"),
        (["run", "plan.md", "--agent", "cladue"], "'claude'"),
    ],
)
def test_typos_get_a_suggestion(place: Place, words: list[str], nearest: str) -> None:
    assert f"Did you mean {nearest}?" in place.segue(*words, code=2).stderr


def test_run_ids_are_never_cut(place: Place) -> None:
    place.segue("run", "plan.md", "--agent", "scripted", "--task", "1")
    run = place.last_run()
    for columns in (60, 80, 120):
        _look_at_the_runs(place, columns, run)


def _look_at_the_runs(place: Place, columns: int, run: str) -> None:
    lines = [line for line in lines_of(shown(place, columns, "status")) if line]
    assert lines[0].startswith("RUN ")
    assert lines[1].split()[:2] == [run, "done"]
    assert len(lines) == 2, "one line per run"
    assert max(map(len, lines)) <= columns
    assert ("STARTED" in lines[0]) == (columns >= 80)
    assert ("REPOSITORY" in lines[0]) == (columns >= 120)
    one = [line for line in lines_of(shown(place, columns, "status", "last")) if line]
    assert one[0].startswith(f"Run {run}: done")
    assert len(one) == 5, "one line per task, and a title, a heading, a rule, the totals"
    assert max(map(len, one[1:])) <= columns
