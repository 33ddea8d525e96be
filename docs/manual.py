"""Build what shells and `man` show about Segue: the manual page and the completion scripts."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from segue import __version__
from segue.cli.help import EXIT_CODES
from segue.cli.main import cli, shown_groups

SHARE = Path("packaging/share")
"""What the wheel installs below `share` of its environment, in the same folders."""

COMPLETIONS = {
    "bash": "bash-completion/completions/segue",
    "zsh": "zsh/site-functions/_segue",
    "fish": "fish/vendor_completions.d/segue.fish",
}


def shared_files(commands: Iterable[tuple[str, click.Command]]) -> dict[Path, str]:
    """Return every file of `SHARE` with its text."""
    found = {SHARE / path: completion(shell) for shell, path in COMPLETIONS.items()}
    return {SHARE / "man/man1/segue.1": manual_page(commands), **found}


def completion(shell: str) -> str:
    """Return the script that completes `segue` in this shell."""
    kind = get_completion_class(shell)
    assert kind is not None
    # source() would ask for this machine's own bash.
    made = kind(cli, {}, "segue", "_SEGUE_COMPLETE")
    return (made.source_template % made.source_vars()).strip() + "\n"


def manual_page(commands: Iterable[tuple[str, click.Command]]) -> str:
    """Return segue(1) as roff."""
    return "\n".join(_manual_lines(commands)) + "\n"


def _manual_lines(commands: Iterable[tuple[str, click.Command]]) -> Iterator[str]:
    yield f'.TH SEGUE 1 "" "Segue {__version__}" "User Commands"'
    yield from (
        ".SH NAME",
        f"segue {_roff('-')} run a task list with coding agents until it is done and proven",
    )
    yield from (".SH SYNOPSIS", r".B segue", "COMMAND [OPTIONS] [ARGUMENTS]")
    yield from (".SH DESCRIPTION", *_paragraphs(cli))
    yield ".SH COMMANDS"
    for heading, group in shown_groups().items():
        yield f".SS {_roff(heading)}"
        for name, text in group.items():
            yield from (".TP", f".B segue {_roff(name)}", _roff(text))
    yield ".SH USAGE"
    for words, command in commands:
        if command is not cli:
            yield from _usage(words, command)
    yield ".SH EXIT STATUS"
    for code, meaning in EXIT_CODES.items():
        yield from (".TP", f".B {code}", _roff(meaning))
    yield from (".SH ENVIRONMENT", "Every setting has a variable whose name begins with SEGUE_:", "")
    yield ".B segue config list \\-\\-all"
    yield "lists the settings and where each value comes from."


def _usage(words: str, command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=words)
    yield f".SS {_roff(words)}"
    yield _roff(" ".join((words, *command.collect_usage_pieces(context))))
    yield from (".PP", *_paragraphs(command))
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record:
            yield from (".TP", f".B {_roff(record[0])}", _roff(" ".join(record[1].split())))


def _paragraphs(command: click.Command) -> Iterator[str]:
    """Yield the help of a command; what click leaves as it is stays as it is."""
    for number, paragraph in enumerate(inspect.cleandoc(command.help or "").split("\n\n")):
        if number:
            yield ".PP"
        if paragraph.startswith("\b\n"):
            yield from (".nf", *map(_roff, paragraph.splitlines()[1:]), ".fi")
        else:
            yield _roff(" ".join(paragraph.split()))


def _roff(text: str) -> str:
    r"""Return the text so that roff prints it, and takes none of it for a request."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped
