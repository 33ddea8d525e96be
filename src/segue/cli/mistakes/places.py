"""Where words belong that a command has no place for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shlex import join

import click

from segue.cli.mistakes.line import (
    RUN_ID,
    TASK,
    TASKS,
    Guess,
    Words,
    find_command,
    find_path,
    is_agent,
    make_plain,
)
from segue.cli.mistakes.names import guess_dashes, guess_no_source, name_issue

SWITCHES = {
    "yes": True,
    "true": True,
    "on": True,
    "1": True,
    "no": False,
    "false": False,
    "off": False,
    "0": False,
}
"""What people write behind an option that takes no value, and whether they mean it."""
_UNITS = ("hour", "day", "week", "minute")


def _guess_own_options(word: str, rest: Words, args: Words) -> Iterator[Guess]:
    """Guess which option of the command takes a word, by what the word is."""
    options = {option for param in find_command(args)[0].params for option in param.opts}
    if "--port" in options and (port := word.rpartition(":")[2]).isdigit():
        yield Guess(f"The port is named with --port: {port}.", [*rest, "--port", port])
    if "--repo" in options and Path(word).is_dir():
        yield Guess(f"The repository is named with --repo: {word}", [*rest, "--repo", word])
    if "--agents" in options and is_agent(word):
        shown = [] if "--agents" in rest else ["--agents"]
        yield Guess("One option shows every agent.", [*rest, *shown])
    if args[0] == "init" and is_agent(word):
        yield Guess("The agent is a setting.", ["config", "set", "agent", word])


def find_extra(message: str, args: Words) -> Words:
    """Return the words that click names in a row, as they were typed."""
    for begin in range(len(args)):
        for end in range(len(args), begin, -1):
            if " ".join(args[begin:end]) == message:
                return args[begin:end]
    return message.split()


def guess_place(extra: Words, args: Words) -> Iterator[Guess]:
    """Guess where words belong that the command has no place for."""
    at = next((at for at in range(len(args), -1, -1) if args[at : at + len(extra)] == extra), len(args))
    word, rest = extra[0], [*args[:at], *args[at + 1 :]]
    for run in (one for one in args if RUN_ID.fullmatch(one)):
        yield Guess(f"The run is named with --run: {run}.", [*(o for o in args if o != run), "--run", run])
    before = args[at - 1]
    if word.rstrip("s") in _UNITS and before.isdigit():
        yield Guess("A time is one word.", [*args[: at - 1], f"{before}{word[0]}", *args[at + 1 :]])
    if before.startswith("-") and word.casefold() in SWITCHES:
        yield Guess(f"{before} takes no value.", rest)
    for one in args[1:]:
        yield from guess_dashes(one, args)
    yield from _guess_text(extra, at, args)
    if args[0] in ("run", "rehearse"):
        yield from _guess_for_run(extra, at, args)
    yield from _guess_own_options(word, rest, args)
    path = find_path(args)
    if before.rstrip("s") == "task" and TASK.fullmatch(word):
        line = ["run", "--task", word] if path == "resume" else [*args[: at - 1], *args[at + 1 :]]
        yield Guess(f"`segue {path}` takes a run, not a task.", line)
    yield Guess(f"`segue {path}` has no place for `{join(extra)}`.", [*args[:at], *args[at + len(extra) :]])


def _guess_text(extra: Words, at: int, args: Words) -> Iterator[Guess]:
    """Guess that words are a text without quotes, or the reason of a decision."""
    command, _, _ = find_command(args)
    if any(param.name in ("text", "sql", "prompt") for param in command.params):
        begin = max(at - 1, 0)
        yield Guess("A text of several words needs quotes.", [*args[:begin], " ".join(args[begin:])])
    if any("--reason" in param.opts for param in command.params) and at < len(args):
        if all(TASK.fullmatch(word) for word in extra):
            yield from _guess_tasks(extra, at, args)
        yield Guess("Why is said with --reason.", [*args[:at], "--reason", " ".join(args[at:])])


def _guess_tasks(extra: Words, at: int, args: Words) -> Iterator[Guess]:
    """Guess that a decision is about several tasks, or about one that a word precedes."""
    rest = args[at + len(extra) :]
    keys = [word for word in (args[at - 1], *extra) if TASK.fullmatch(word)]
    lines = [[*args[: at - 1], key, *rest] for key in keys]
    after = "".join(f" && segue {join(line)}" for line in lines[1:])
    said = f"One task at a time: {join(keys)}." if after else f"{args[at - 1]!r} is not needed here."
    yield Guess(said, lines[0], after=after)


def _guess_for_run(extra: Words, at: int, args: Words) -> Iterator[Guess]:
    """Guess what the words are beside a source: agents, tasks, an issue, a goal without quotes."""
    left = [*args[:at], *args[at + len(extra) :]]
    if at > 1 and args[at - 2] == "--agent" and all(map(is_agent, extra)):
        line = [*args[: at - 1], ",".join([args[at - 1], *extra]), *args[at + len(extra) :]]
        yield Guess("Agents that take over from each other are joined by commas.", line)
    source = [one for one in args[1:at] if not one.startswith("-")]
    keys = all(RUN_ID.fullmatch(word) or TASK.fullmatch(word) for word in extra)
    if source and keys:
        tasks = [word for key in extra for word in ("--task", key)]
        if source[0] in ("task", "tasks"):
            yield Guess(f"A task is named with --task: {join(extra)}.", [args[0], *tasks, *left[at:]])
        yield from guess_no_source(source[0], extra)
        if source[0] in ("issue", "issues") and len(extra) == 1:
            found = name_issue(extra[0].lstrip("#"))
            yield Guess("An issue on GitHub is named by its repository.", [args[0], found, *left[at:]])
    if source and TASK.fullmatch(source[0]) and Path(extra[0]).is_file():
        words = [one for one in left if one != source[0]]
        yield Guess("The list of tasks comes first.", [words[0], extra[0], *words[1:], "--task", source[0]])
    yield from _guess_kinds(extra, left)
    if find_flag(args[at - 1], args):
        yield Guess(f"{args[at - 1]} takes no value.", left)
    if any(Path(word).suffix or Path(word).exists() for word in extra):
        yield Guess(f"One source at a time, and then {join(extra)}.", left)
    if source and not Path(source[0]).exists() and ":" not in source[0]:
        goal = " ".join(map(make_plain, [*source, *extra]))
        options = [one for one in args[1:] if one not in (*source, *extra)]
        yield Guess("A text of several words needs quotes.", [args[0], goal, *options])


_LONGEST_FILLER = 8
"""How long a word may be that means nothing by itself, such as `with`."""


def _guess_kinds(extra: Words, left: Words) -> Iterator[Guess]:
    """Guess that each word is an agent or a task, with nothing but small words beside them."""
    meant = [(word, _find_option(word)) for word in extra]
    fillers = [word for word, option in meant if not option]
    if len(fillers) == len(extra) or any(
        len(word) > _LONGEST_FILLER or Path(word).exists() for word in fillers
    ):
        return
    agents = [word for word, option in meant if option == "--agent"]
    tasks = [part for word, option in meant if option == "--task" for part in (option, word)]
    said = [
        f"{what} is named with {option}"
        for what, option, found in (("An agent", "--agent", agents), ("A task", "--task", tasks))
        if found
    ]
    line = [*left, *(["--agent", ",".join(agents)] if agents else []), *tasks]
    yield Guess(f"{'; '.join(said)}: {join(extra)}.", line)


def _find_option(word: str) -> str:
    """Return the option that takes a word, by what it looks like; empty: none does."""
    if is_agent(word):
        return "--agent"
    return "--task" if TASKS.fullmatch(word) else ""


def find_flag(word: str, args: Words) -> click.Option | None:
    """Return the option of a command that is written so, if it takes no value."""
    options = (param for param in find_command(args)[0].params if isinstance(param, click.Option))
    return next((one for one in options if one.is_flag and word in (*one.opts, *one.secondary_opts)), None)
