"""Commands about Segue itself: help on commands and topics (the pages of the documentation), completion."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import click

from segue.cli.terminal.output import is_interactive
from segue.domain.pattern import pattern

EXIT_CODES: dict[int, str] = {
    0: "all requested work is done; nobody reads the output any more, which ends no run",
    1: "unexpected error, or the database cannot be used; `segue check`: the work fails a check",
    2: "the command line or the configuration is wrong, or the repository is not ready for a run",
    3: "stopped: a task needs a human; `segue check`: the work is proven less than `--require` asks for",
    4: "credentials are missing or were rejected",
    5: "a required program was not found",
    6: "another process is using the repository or the run",
    7: "parked: a service that the run needs is away; the state is saved and `segue resume` continues",
    124: "the time limit of the whole run was reached",
    130: "interrupted (Ctrl-C, `segue stop`); the state is saved and the resume command is printed",
}

_CODES_TOPIC = "exit-codes"
"""The one topic that is a table of the code, not a page."""
_SHELLS = ("bash", "zsh", "fish")


@click.command("help")
@click.argument("words", metavar="[COMMAND|TOPIC]...", nargs=-1)
@click.pass_context
def help_(context: click.Context, words: tuple[str, ...]) -> None:
    """Show help for Segue, for COMMAND or on TOPIC.

    Topics are the pages of the documentation, groups of commands such as `data`, and `exit-codes`; without a
    name, all are listed.

    \b
    Examples:
      segue help
      segue help run
      segue help data
      segue help db export
      segue help sandbox
      segue help exit-codes
    """

    assert context.parent is not None
    if words == (_CODES_TOPIC,):
        from segue.cli.terminal.output import Printer

        Printer().table(["code", "meaning"], EXIT_CODES.items())
        return
    if not words:
        click.echo(context.parent.command.get_help(context.parent))
        click.echo()
        for heading, names in group_topics().items():
            click.echo(click.wrap_text(f"{heading}: {', '.join(names)}", subsequent_indent="  "))
        return
    word = words[0] if len(words) == 1 else ""
    topic = read_topic(word) if word in find_topics() else ""
    group = _list_group(word)
    text = _command_help(context.parent, words, is_topic=bool(topic or group))
    show_page("\n\n".join(filter(None, (group, text, topic))), markdown=not (text or group))


def _list_group(word: str) -> str:
    """Return the commands of a group, a line each; empty: there is no such group."""
    from segue.cli.main import list_rest
    from segue.domain.installed import built_in_parts

    groups = list_rest()
    if word == "parts":
        lines = {name: one.help for part in built_in_parts() for name, one in part.commands.items()}
    else:
        lines = groups.get(word, {})
    formatter = click.HelpFormatter(max_width=100)
    if lines:
        with formatter.section(f"Commands of the group {word}"):
            formatter.write_dl([(f"segue {name}", text) for name, text in lines.items()])
    return formatter.getvalue().rstrip()


def _command_help(place: click.Context, words: Sequence[str], *, is_topic: bool) -> str:
    """Return the help of a command; empty for a topic that is no command."""
    from segue.cli.main import unknown_command
    from segue.domain.text import suggest

    command = place.command
    for word in words:
        found = command.get_command(place, word) if isinstance(command, click.Group) else None
        if found is None and is_topic:
            return ""
        if found is None:
            error = unknown_command(word, place)
            near = (
                ""
                if "Did you mean" in error.message
                else suggest(word, [*find_topics(), _CODES_TOPIC], "`segue help {}`")
            )
            raise (
                click.UsageError(f"There is no command and no topic {word!r}.{near}", place)
                if near
                else error
            )
        command, place = found, click.Context(found, info_name=word, parent=place)
    return command.get_help(place)


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
def completion(shell: str) -> None:
    """Print the completion script for SHELL.

    \b
    Examples:
      segue completion bash >> ~/.bashrc
      segue completion zsh >> ~/.zshrc
      segue completion fish > ~/.config/fish/completions/segue.fish
    """
    from click.shell_completion import get_completion_class

    from segue.cli.main import cli

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(cli, {}, "segue", "_SEGUE_COMPLETE").source())


_PACKAGE = Path(__file__).parent.parent
_PLACES = (_PACKAGE / "pages", _PACKAGE.parent.parent / "docs")
"""Where the pages are: in a wheel, and in a checkout."""
_FOLDERS = {"guides": "Guides", "reference": "Reference", "explanation": "Explanation", ".": "More"}
_LINK = pattern(r"(!?)\[([^\]]+)\]\(([^)\s]+)\)")
_COMMENT = pattern(r"(?s)<!--.*?-->\n?")


@cache
def find_topics() -> dict[str, Path]:
    """Return the pages by name: each file is a topic."""
    place = next((place for place in _PLACES if (place / "guides").is_dir()), _PLACES[0])
    pages = [path for folder in _FOLDERS for path in sorted((place / folder).glob("*.md"))]
    return {path.stem: path for path in pages if path.stem != "README"}


def group_topics() -> dict[str, list[str]]:
    """Return the names of the topics under their headings."""
    groups: dict[str, list[str]] = {}
    for name, path in find_topics().items():
        groups.setdefault(_FOLDERS.get(path.parent.name, _FOLDERS["."]), []).append(name)
    return groups


def read_topic(name: str) -> str:
    """Return a page as Markdown for a terminal: its links to other pages name the command that shows them."""
    text = _COMMENT.sub("", find_topics()[name].read_text("utf-8"))
    return _LINK.sub(lambda found: _describe_link(name, *found.groups()), text)


def _describe_link(here: str, picture: str, words: str, target: str) -> str:
    if picture:
        return f"({words})"
    page = Path(target.partition("#")[0]).stem
    if "://" in target:
        return words if words == target else f"{words} ({target})"
    return f"{words} (`segue help {page}`)" if page in find_topics() and page != here else words


def show_page(text: str, *, markdown: bool) -> None:
    """Print a page; on a terminal, Markdown is set and a pager scrolls."""
    if not is_interactive(sys.stdout):
        click.echo(text)
        return
    click.echo_via_pager(_render(text) if markdown else text, color=True)


def _render(text: str) -> str:
    from io import StringIO

    from rich.console import Console
    from rich.markdown import Markdown

    console = Console(file=StringIO(), force_terminal=True, width=min(Console().width, 100))
    console.print(Markdown(text, hyperlinks=False))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()
