"""What may be meant by a word where a command is expected."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from shlex import join, quote

import click

from segue.cli.main import ALIKE, COMMANDS, cli
from segue.cli.mistakes import words as others
from segue.cli.mistakes.line import RUN_ID, TASK, Guess, Words, find_context, is_agent
from segue.cli.mistakes.values import find_setting

OF_RUNS = ("status", "resume", "stop", "logs --follow")
"""Commands whose argument is a run."""


def guess_command(name: str, error: click.UsageError, args: Words) -> Iterator[Guess]:
    """Guess what is meant by a word where a command is expected."""
    path = (error.ctx.command_path.split() if error.ctx is not None else ["segue"])[1:]
    yield from guess_order(error, args)
    at = args.index(name, len(path)) if name in args[len(path) :] else len(path)
    rest = args[at + 1 :]
    single = name.removesuffix("s")
    if not path and rest and single in list_groups() and not TASK.fullmatch(rest[0]):
        yield Guess(f"`{name}` is `segue {single}` here.", [single, *rest])
    yield from _guess_meaning(name, path, rest)
    for group in [] if path else find_groups(name):
        sentence = f"There is no command {name!r}: it belongs to `segue {group}`."
        if len(rest) == 1 and " " in rest[0]:
            yield Guess(sentence, [group, name, "KEY", *rest])
        yield Guess(sentence, [group, *args])
        if all(RUN_ID.fullmatch(word) for word in rest):
            yield Guess(sentence, [group, name])
    if not path:
        yield from _guess_run_option(name, rest)
    for near in _find_near(name, error.ctx):
        sentence = f"There is no command {name!r}. Did you mean `{join(['segue', *path, near])}`?"
        yield Guess(sentence, [*args[:at], near, *rest])
        if not any(word.startswith("-") for word in rest):
            yield Guess(sentence, [*path, near])
    yield from _guess_object(name, path, args)
    yield from _guess_elsewhere(name, path, rest)


def _guess_meaning(name: str, path: Words, rest: Words) -> Iterator[Guess]:
    """Guess that others call a command so."""
    inner = others.inner_meanings(others.INNER, path[0], name) if path else []
    for meant in [*inner, *([] if path else others.meanings(others.COMMANDS, name))]:
        sentence = f"`{' '.join([*path, name])}` is `segue {meant}` here."
        if meant == "resume" and rest and TASK.fullmatch(rest[0]):
            yield Guess(f"A task is tried again with `segue run --task {rest[0]}`.", ["run", "--task", *rest])
        if meant.endswith(" agent") and len(rest) > 1 and all(map(is_agent, rest)):
            yield Guess(sentence, [*meant.split(), ",".join(rest)])
        if meant in ("status", "task list") and rest and TASK.fullmatch(rest[0]):
            yield Guess(sentence, ["status", "last", rest[0]])
        if not (meant in OF_RUNS or meant.startswith("help")):
            yield Guess(sentence, [*meant.split(), *rest])
        if not meant.startswith("help"):
            yield Guess(sentence, [*meant.split(), *(word for word in rest if RUN_ID.fullmatch(word))])
        yield Guess(sentence, meant.split())


def _guess_elsewhere(name: str, path: Words, rest: Words) -> Iterator[Guess]:
    """Guess that a word is a command outside of its group."""
    if path and name in COMMANDS:
        sentence = f"`{name}` is a command of its own: `segue {name}`."
        yield Guess(sentence, [name, *rest])
        yield Guess(sentence, [name, *rest[:1], " ".join(rest[1:])])


def _guess_run_option(name: str, rest: Words) -> Iterator[Guess]:
    """Guess that a word is an option of `segue run`."""
    command = cli.get_command(click.Context(cli), "run")
    params = command.params if command is not None else []
    found = next((one for one in params if f"--{name}" in one.opts and isinstance(one, click.Option)), None)
    if found is not None:
        option = f"--{name}"
        line = ["run", *rest, option] if found.is_flag else ["run", option, *rest]
        yield Guess(f"{name} is an option of `segue run`: {option}.", line)


def find_groups(name: str) -> list[str]:
    """Return the groups of the core that have a command of this name."""
    return [group for group, one in list_groups().items() if name in one.commands]


@cache
def list_groups() -> dict[str, click.Group]:
    """Return the groups of the core by name."""
    found = {name: cli.get_command(click.Context(cli), name) for name in COMMANDS}
    return {name: one for name, one in found.items() if isinstance(one, click.Group)}


def _find_near(name: str, context: click.Context | None) -> list[str]:
    from segue.domain.text import find_nearest

    group = context.command if context is not None else cli
    names = group.list_commands(context or click.Context(cli)) if isinstance(group, click.Group) else []
    near = find_nearest(name, names, ALIKE)
    return [near] if near else []


def _guess_object(name: str, path: Words, args: Words) -> Iterator[Guess]:
    """Guess the command from what follows: a run, a task, a setting, a plan."""
    rest = args[len(path) + 1 :]
    group = find_context(path) if path else None
    inner = group.command.list_commands(group) if group and isinstance(group.command, click.Group) else ()
    if (verb := next((word for word in rest if word in inner), None)) is not None:
        line = [*path, verb, *(word for word in args[len(path) :] if word != verb)]
        yield Guess(f"The command comes first: `{verb}` follows {name}.", line)
    elif not path and RUN_ID.fullmatch(name):
        yield Guess(f"{name} is a run; a command comes before it.", ["status", *args])
    elif not path and (" " in name or Path(name).is_file()):
        yield Guess(f"There is no command {name!r}. Did you mean `segue run {quote(name)}`?", ["run", *args])
    elif not path and name.isdigit():
        yield Guess(f"{name} may be a task; a command comes before it.", ["proof", "last", name])
    elif path == ["task"] and TASK.fullmatch(name):
        yield Guess(f"What should be done with {name}? This shows its proof.", ["proof", "last", name])
    elif path == ["config"] and find_setting(name):
        verb = "set" if rest else "explain"
        yield Guess(f"What should be done with {name}?", ["config", verb, name, *rest])
    elif path == ["agent"] and is_agent(name):
        yield Guess(f"What should be done with {name}? This lists its options.", ["agent", "schema", name])
    elif path == ["check"] and RUN_ID.fullmatch(name):
        yield Guess(f"{name} is a run; this shows its proof.", ["proof", name])
    elif path == ["check"]:
        yield Guess(f"`segue check` proves work that is there; {name} is run.", ["run", name, *rest])


def guess_order(error: click.UsageError, args: Words) -> Iterator[Guess]:
    """Guess that the command is there, but not at the beginning."""
    root = error.ctx.find_root() if error.ctx is not None else None
    if root is None or error.ctx is not root or not isinstance(root.command, click.Group):
        return
    names = root.command.list_commands(root)
    at = next((at for at, word in enumerate(args) if word in names), 0)
    if at and not any(word in names for word in args[:at]):
        sentence = f"The command comes first: `{args[at]}` follows {join(args[:at])}."
        yield Guess(sentence, [args[at], *args[at + 1 :], *args[:at]])
