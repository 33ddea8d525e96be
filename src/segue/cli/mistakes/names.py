"""What may be meant by a word that names nothing: no source, no run, no task."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import join

import click

from segue.cli.main import COMMANDS
from segue.cli.mistakes import words as others
from segue.cli.mistakes.line import RUN_ID, RUNNING, TASK, Guess, Words, find_command, is_short_for, suggest
from segue.domain.errors import SegueError, SourceError, UnknownName, UsageError
from segue.domain.pattern import pattern
from segue.domain.task_names import split_known

_ISSUE = pattern(r"(?P<place>[\w.-]+/[\w.-]+)?#?(?P<number>\d+)")
_REPOSITORY = pattern(r"[\w-]+/[\w-]+")
_INSIDE = pattern(r"(?P<file>[^#:]+)[#:](?P<key>[\w.]+)|tasks?-?(?P<number>\d+)")
"""A task in the name of its list, as in `plan.md#2`, or as one word with its number."""
_PULL = pattern(r"\S*/(?:pull|merge_requests)/\d+\S*")
_SCHEME = pattern(r"([a-z]+):(?=[\w.-])")


def explain_name(error: SegueError, args: Sequence[str]) -> SegueError:
    """Return the refusal of a name with the line that may have been meant."""
    if not isinstance(error, (SourceError, UnknownName)):
        return error
    command, context, rest = find_command(args)
    try:
        params = command.make_context(command.name, list(rest), parent=context).params
    except (click.UsageError, UsageError):
        return error
    if isinstance(error, SourceError):
        named = params.get("source")
        found = _explain_source(error, named, list(args)) if isinstance(named, str) else None
        return found or error
    guesses = _guess_name(error, command, list(args))
    return next(filter(None, map(suggest, guesses)), error)


def guess_no_source(word: str, rest: Words) -> Iterator[Guess]:
    """Guess that a word in the place of a source is a command."""
    for meant in [word] if word in COMMANDS else others.meanings(others.COMMANDS, word):
        said = f"There is no list of tasks {word!r}. Did you mean `segue {meant}`?"
        yield Guess(said, [*meant.split(), *rest])


def guess_dashes(word: str, args: Words) -> Iterator[Guess]:
    """Guess that a word is an option without its dashes, as in `logs task 2`."""
    if word not in args[1:]:
        return
    at = args.index(word, 1)
    command, _, _ = find_command(args)
    own = [option for param in command.params for option in param.opts]
    called = [one for one in others.meanings(others.OPTIONS, f"--{word}") if one in own]
    for option in [*(one for one in own if one in (f"--{word}", f"--{word}s")), *called]:
        yield Guess(f"{word} is the option {option} here.", [*args[:at], option, *args[at + 1 :]])


def _explain_source(error: SourceError, named: str, args: Words) -> UsageError | None:
    """Return what was meant by a source that was not found."""
    if Path(named) == Path():
        said = "This folder is no Spec Kit feature; without a source, Segue looks for the tasks here."
        return suggest(Guess(said, [word for word in args if word != named]))
    is_file = "task list" in others.meanings(others.COMMANDS, named) and "Did you mean" not in error.message
    if Path(named).exists() or is_file:
        return None  # a folder, or a file such as `todo`
    found = next(filter(None, map(suggest, _guess_source(error, named, args))), None)
    if found is None and "://" in named:
        hint = "Those of GitHub are read directly, others from a table (CSV, JSON lines): segue help tasks"
        return SourceError(f"No list of tasks is known at {named}.", kept=error.kept, hint=hint)
    return found


def _guess_source(error: SourceError, named: str, args: Words) -> Iterator[Guess]:
    at = args.index(named)

    def replace(*meant: str) -> Words:
        return [*args[:at], *meant, *args[at + 1 :]]

    if inside := _INSIDE.fullmatch(named):
        file, key = (inside["file"], inside["key"]) if inside["file"] else ("", inside["number"])
        if not file or Path(file).is_file():
            words = [*([file] if file else []), "--task", key]
            yield Guess("A task is named with --task.", replace(*words))
    if near := re.search(r"Did you mean (\S+)\?", error.message):
        yield Guess(error.message, replace(near[1]))
    keys = [key for key in re.split(r"[\s,]+", named) if key]
    if keys and all(TASK.fullmatch(key) and key[0] not in "#0" for key in keys):
        yield Guess(
            f"{named} is no list of tasks; a task is named with --task.", replace("--task", ",".join(keys))
        )
    if address := _read_address(named, Path(named)):
        yield Guess(f"{named} is no list of tasks here; issues on GitHub are named so.", replace(address))
    if _PULL.fullmatch(named):
        said = "A pull request is no list of tasks; `follow` works on what comes back from the one of a run."
        yield Guess(said, ["follow"])
    yield from guess_no_source(named, [])
    if RUN_ID.fullmatch(named):
        yield Guess(f"{named} is a run, no list of tasks.", ["resume", named])


def _read_address(named: str, path: Path) -> str:
    """Return the address of what GitHub calls `#12`, and of `gh:acme/shop`; empty: it is none."""
    from segue.sources.recognise import GITHUB

    scheme = _SCHEME.match(named)
    if scheme and is_short_for(scheme[1], GITHUB):
        return f"{GITHUB}{named[scheme.end() :]}"
    if named.removeprefix("www.").removesuffix("/") == "github.com":
        return f"{GITHUB}OWNER/REPO"
    if _REPOSITORY.fullmatch(named) and not path.parent.exists() and path.parts[0] != "specs":
        return f"{GITHUB}{named}"
    found = _ISSUE.fullmatch(named)
    return name_issue(found["number"], found["place"]) if found and "#" in named else ""


def name_issue(number: str, place: str | None = None) -> str:
    """Return the address of an issue on GitHub; without a place, in the repository of `origin`."""
    from segue.sources.recognise import GITHUB

    return f"{GITHUB}{place or _find_origin() or 'OWNER/REPO'}#{number}"


def _find_origin() -> str:
    """Return OWNER/REPO, if the repository here has its origin on GitHub."""
    from segue.system.reading import work_tree

    try:
        text = (work_tree(Path.cwd()) / ".git" / "config").read_text("utf-8")
    except (OSError, ValueError):
        return ""
    found = re.search(r"^\s*url\s*=\s*\S*github\.com[:/]([\w.-]+/[\w.-]+?)(?:\.git)?\s*$", text, re.MULTILINE)
    return found[1] if found else ""


def _guess_name(error: UnknownName, command: click.Command, args: Words) -> Iterator[Guess]:
    """Guess what is meant by words that are no run, or no task."""
    word = error.name
    said = [word] if word in args else word.split()
    yield from guess_dashes(word, args)
    at = next((at for at in range(len(args)) if args[at : at + len(said)] == said), None)
    if at is None:
        return
    takes_task = any(param.name == "key" for param in command.params)
    keys = split_known(word, error.known) if takes_task or error.what == "task" else []
    lines = [[*args[:at], key, *args[at + len(said) :]] for key in keys]
    if len(lines) > 1 and command.name not in RUNNING:
        after = "".join(f" && segue {join(line)}" for line in lines[1:])
        yield Guess(f"One task at a time: {word} are several.", lines[0], after=after)
    for line in lines:
        yield Guess(f"{error.message} Did you mean {line[at]}?", line)
    if error.what == "task" and RUN_ID.fullmatch(word):
        rest = [*args[:at], *args[at + 1 :]]
        name = "TASK" if any(param.name == "text" for param in command.params) else "KEY"
        yield Guess(f"{word} is a run.", [*args[:at], name, *args[at + 1 :], "--run", word])
        yield Guess(f"{word} is a run.", [*rest, "--run", word])
    if error.what == "task" or RUN_ID.fullmatch(word):
        return
    left = [*args[:at], *args[at + 1 :]]
    if Path(word).is_file():
        yield Guess(f"{word} is a list of tasks, and this takes a run.", _with_file(command, left, word))
    if (command.name or "") == "stop" and TASK.fullmatch(word):
        sentence = f"A run is stopped, not a task. To leave one out: segue task skip {word} --reason WHY"
        yield Guess(sentence, left)


def _with_file(command: click.Command, left: Words, file: str) -> Words:
    """Return the line that works on a list of tasks, or shows the newest run."""
    name = command.name or ""
    return ["run", file] if name in RUNNING else [*left, "last"]
