"""Recognises what kind of task a text describes, and finds the commands that it names.

When in doubt it is a task that builds something. Commands are found so that Segue itself can run them: no
shell, no guessing.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from msgspec import Struct
from msgspec.structs import replace

from segue.domain import kind_words as words
from segue.domain.task import Notice, Task, TaskKind, TaskList

_MOST = 20
_LONGEST = 1000

_FENCE = re.compile(
    r"^[ \t>]*(`{3,}|~{3,})[ \t]*([\w+-]*)[^\n]*\n(.*?)(?:^[ \t>]*\1|\Z)", re.DOTALL | re.MULTILINE
)
_INLINE = re.compile(r"(?<!`)(`{1,2})(?!`)([^`\n]+)\1(?!`)")
_SHELLS = {"bash", "sh", "shell", "zsh", "console", "terminal", "shell-session", "sh-session"}
_PROMPT = re.compile(r"\$\s+(?=\S)")

_SINGLE_QUOTED = re.compile(r"'[^']*'")
_DOUBLE_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_NEEDS_SHELL = re.compile(r"[|&;<>()*]|\{[^}]*,[^}]*\}|(?:^|\s)~|^\w+=|…|(?<![/\w])\.\.\.|\w\.\.\.$")
_EXPANDS = re.compile(r"[$`]")

# fmt: off
_PROGRAMS = frozenset((
    "ansible-lint", "ansible-playbook", "artisan", "bandit", "bats", "bazel", "biome", "black", "bun",
    "bundle", "bunx", "busted", "cabal", "cargo", "cat", "clang-tidy", "cmake", "composer", "coverage",
    "ctest", "curl", "cypress", "dart", "deno", "diff", "docker", "docker-compose", "dotnet", "elixir",
    "eslint", "flake8", "flutter", "go", "golangci-lint", "gradle", "grep", "hatch", "helm", "hugo",
    "isort", "jest", "jq", "julia", "just", "ktlint", "lein", "ls", "luacheck", "make", "markdownlint",
    "meson", "mix", "mocha", "mvn", "mypy", "ng", "ninja", "nix", "node", "nox", "npm", "npx", "nx",
    "pdm", "php", "phpstan", "phpunit", "pip-audit", "playwright", "pnpm", "podman", "poetry",
    "pre-commit", "prettier", "pylint", "pyright", "pytest", "python", "python3", "rails", "rake", "rg",
    "rspec", "rubocop", "ruby", "ruff", "rye", "sbt", "semgrep", "shellcheck", "sqlfluff", "stylelint",
    "swift", "swiftlint", "terraform", "tflint", "tofu", "tox", "trivy", "tsc", "tsx", "turbo", "uv",
    "uvx", "vitest", "wasm-pack", "wc", "xcodebuild", "yarn", "zig",
))
_ALONE = frozenset((
    "ctest", "jest", "make", "nox", "phpunit", "playwright", "pytest", "rake", "rspec", "tox", "tsc",
    "vitest",
))
"""Programs that do something useful without arguments; other single words only name a thing."""
# fmt: on
_GIT = ("diff", "grep", "log", "ls-files", "show", "status")
_OUTWARD = re.compile(r"[\s:](?:publish|push|deploy|apply|destroy|delete|release)(?=\s|$)")
"""Words of commands that reach beyond the repository: those are for people and agents."""
_SCRIPT = re.compile(r"\.{0,2}/?(?:[\w.-]+/)*[\w-]+(?:\.(?:sh|bash|py|mjs|js|rb|pl))?")
_ASKS_TO_RUN = re.compile(
    r"\b(?:re-?)?(?:run|runs|running|execute|executing|invoke|call|with|via|using)\b\W*$", re.I
)


class FoundCommands(Struct, frozen=True):
    """The commands in a text, and those that are left out because they need a shell or reach too far."""

    commands: tuple[tuple[str, ...], ...] = ()
    left_out: tuple[str, ...] = ()


def commands_in(text: str) -> tuple[tuple[str, ...], ...]:
    """Return the commands in backticks and code blocks, each split into words as a shell would."""
    return find_commands(text).commands


def find_commands(text: str) -> FoundCommands:
    """Return the commands in backticks and code blocks, and those that Segue does not run."""
    commands: dict[tuple[str, ...], None] = {}
    left_out: dict[str, None] = {}
    for written in _written(text):
        words = _split(written)
        if words is None:
            left_out[written] = None
        else:
            commands[words] = None
    return FoundCommands(tuple(commands)[:_MOST], tuple(left_out)[:_MOST])


def _written(text: str) -> Iterator[str]:
    """Yield everything that looks like a command, in the order of the text."""
    place = 0
    for block in _FENCE.finditer(text):
        yield from _inline(text[place : block.start()])
        yield from _fenced(block[2].lower(), block[3])
        place = block.end()
    yield from _inline(text[place:])


def _fenced(language: str, body: str) -> Iterator[str]:
    if language and language not in _SHELLS:
        return
    lines = [line.strip().removeprefix("> ") for line in body.replace("\\\n", " ").split("\n")]
    typed = [line for line in lines if _PROMPT.match(line)]
    for line in typed or lines:
        command = _PROMPT.sub("", line, count=1).strip()
        if not command or command.startswith("#") or len(command) > _LONGEST:
            continue
        # A block that says it is shell contains commands; in others a line may be anything.
        if language or typed or _names_program(command):
            yield command


def _inline(text: str) -> Iterator[str]:
    for found in _INLINE.finditer(text):
        command = _PROMPT.sub("", found[2].strip(), count=1)
        if len(command) > _LONGEST:
            continue
        asked = _ASKS_TO_RUN.search(text[max(0, found.start() - 40) : found.start()]) is not None
        if _names_program(command) or (asked and _is_script(command)):
            yield command


def _names_program(command: str) -> bool:
    words = command.split()
    first = words[0] if words else ""
    # `FOO=1 pytest` and `cd web && npm test` name programs too, although only a shell runs them.
    if len(words) > 1 and (first == "cd" or re.match(r"[A-Z_][A-Z0-9_]*=", first)):
        return True
    if len(words) > 1 and re.match(r"\./[\w./-]+$", first):
        return True
    if first == "git":
        return words[1:2] != [] and words[1] in _GIT
    return first in (_PROGRAMS if len(words) > 1 else _ALONE)


def _is_script(command: str) -> bool:
    first = command.split()[0]
    return ("/" in first or "." in first) and _SCRIPT.fullmatch(first) is not None


def _split(command: str) -> tuple[str, ...] | None:
    """Return the words of a command; None if Segue does not run it."""
    unquoted = _SINGLE_QUOTED.sub("''", command)
    if _EXPANDS.search(unquoted) or _NEEDS_SHELL.search(_DOUBLE_QUOTED.sub('""', unquoted)):
        return None
    try:
        words = tuple(shlex.split(command, comments=True))
    except ValueError:
        return None
    known = _names_program(command) or (bool(words) and _is_script(words[0]))
    return words if words and known and words[0] != "cd" and not _OUTWARD.search(command) else None


_LONGEST_TEXT = 100_000
"""Nobody describes a task in more; the rest is not looked at."""


def recognise_kind(title: str, text: str = "", section: str = "") -> TaskKind:
    """Return what the words of a task ask for; `section` are the headings and notes above it."""
    text = text[:_LONGEST_TEXT]
    stated = stated_kind(text) or stated_kind(title)
    if stated is not None:
        return stated
    line = _own_line(title, text)
    first = text.split("\n", 1)[0]
    if _is_human(line, first):
        return TaskKind.HUMAN
    if _is_test_first(line, first, text, section):
        return TaskKind.TEST_FIRST
    if _is_verify_only(line, text):
        return TaskKind.VERIFY_ONLY
    return TaskKind.DOCS if _is_docs(line) else TaskKind.BUILD


def stated_kind(text: str) -> TaskKind | None:
    """Return the kind that the author names, as in `kind: docs` on a line or `[kind: docs]` anywhere."""
    return next((kind for word in _stated(text) if (kind := read_kind(word)) is not None), None)


def read_kind(word: str) -> TaskKind | None:
    """Return the kind that a word names; None: there is no such kind."""
    name = re.sub(r"[\s_]+", "-", word.strip().lower())
    return TaskKind(name) if name in set(TaskKind) else None


def kind_of(task: Task, rules: Mapping[str, TaskKind]) -> TaskKind:
    """Return the kind of a task: by the user's rules, else as its source says, else by its words.

    Rules are keys of tasks or patterns such as `T0*`; an exact key comes first, then the first that fits.
    """
    if task.key in rules:
        return rules[task.key]
    ruled = next((kind for pattern, kind in rules.items() if fnmatchcase(task.key, pattern)), None)
    if ruled is not None:
        return ruled
    if task.kind_is_given or task.kind is not TaskKind.BUILD:
        return task.kind
    return recognise_kind(task.title, task.text, task.section)


def with_kind(task: Task, rules: Mapping[str, TaskKind]) -> Task:
    """Return the task with its kind."""
    return replace(task, kind=kind_of(task, rules))


def with_kinds(listing: TaskList, rules: Mapping[str, TaskKind]) -> TaskList:
    """Return the tasks with their kinds, and notices about kinds that do not exist."""
    notices = [notice for task in listing.tasks if (notice := _unknown(task)) is not None]
    tasks = tuple(with_kind(task, rules) for task in listing.tasks)
    return replace(listing, tasks=tasks, notices=(*listing.notices, *notices))


def _unknown(task: Task) -> Notice | None:
    """Return a notice about a label such as `[kind: doc]`; a line may mean something else."""
    text = task.text[:_LONGEST_TEXT]
    if "kind" not in text.lower():
        return None
    labels = [found[1] for found in words.KIND_LABEL.finditer(text)]
    if not labels or any(map(read_kind, labels)):
        return None
    text = (
        f"{labels[0]!r} is no kind of task; there are {', '.join(TaskKind)}. The words of {task.key} decide."
    )
    return Notice(task.line or 1, text)


def _stated(text: str) -> list[str]:
    found: list[str] = []
    fenced = False
    if "kind" not in text.lower():
        return found
    for line in text.split("\n"):
        if words.CODE_FENCE.match(line):
            fenced = not fenced
        elif not fenced and "kind" in line.lower():
            whole = words.KIND_LINE.match(line)
            found += [whole[1]] if whole else [label[1] for label in words.KIND_LABEL.finditer(line)]
    return found


def _own_line(title: str, text: str) -> str:
    """Return the title; one that was cut is completed from the text."""
    start = title.removesuffix("…").rstrip()
    if title.endswith("…"):
        for line in text.split("\n")[:20]:
            plain = " ".join(line.replace("**", "").replace("`", "").replace("~~", "").split())
            if (place := plain.find(start)) >= 0:
                return plain[place:][:1000]
    return title[:1000]


def _is_human(line: str, first: str) -> bool:
    if words.HUMAN_LABEL.search(first) or any(how.match(line) for how in words.HUMAN):
        return True
    return words.TRIES_OUT.match(line) is not None and words.DONE_BY_HAND.search(line) is not None


def _is_test_first(line: str, first: str, text: str, section: str) -> bool:
    if words.RUN.match(line) or words.VERIFY.match(line) or words.SUPPORTS_TESTS.match(line):
        return False
    if words.FAILING_TEST.match(line) or words.RED_LABEL.search(first):
        return True
    if not words.WRITES_TEST.match(line):
        return False
    return words.TESTS_MUST_FAIL.search(text) is not None or words.TESTS_FIRST.search(section) is not None


def _is_verify_only(line: str, text: str) -> bool:
    if words.FINAL_RUN.match(line):
        return True
    if words.LOOK.match(line):
        return words.NO_CHANGE.search(f"{line}\n{text}") is not None
    if run := words.RUN.match(line):
        return _only_runs(run[1], text)
    found = words.VERIFY.match(line)
    return found is not None and _only_looks(found[1].lower(), found[2], text)


def _only_runs(rest: str, text: str) -> bool:
    """Return whether a task that begins with "Run" asks for a result, not for a change."""
    if words.RUN_CHANGES.search(rest) or words.MAKES.search(rest):
        return False
    commands = [" ".join(command) for command in commands_in(text)]
    if any(map(_changes_files, commands)):
        return False
    if commands or words.SHOWS_RESULT.search(rest) or words.NO_CHANGE.search(text):
        return True
    return words.MEASURES.search(rest) is not None and not _names_source(rest)


def _only_looks(verb: str, rest: str, text: str) -> bool:
    """Return whether a task that begins with "Verify" looks at something, and does not build it."""
    if words.VERIFY_CHANGES.search(rest) or words.MAKES.search(rest):
        return False
    if words.SHOWS_RESULT.search(rest) or words.WORKS_ALREADY.search(rest) or words.NO_CHANGE.search(text):
        return True
    if commands_in(text):
        return True
    if _names_source(rest) or re.match(r"(?:if|whether)\b", rest, re.IGNORECASE):
        return False
    # People build validations and checks; what they verify or confirm is there already.
    certain = verb in ("verify", "confirm") or words.QUANTIFIED.match(rest) is not None
    return certain and words.STATES_FACT.search(rest, 0 if verb in ("verify", "confirm") else 3) is not None


def _changes_files(command: str) -> bool:
    return words.CHANGING_COMMAND.search(command) is not None and not words.ONLY_LOOKS.search(command)


def _names_source(line: str) -> bool:
    """Return whether a line names a file of the program itself: no test, no document."""
    named = [found[0] for found in words.SOURCE_FILE.finditer(words.FRAMEWORK.sub("", line))]
    return any(
        not words.TEST_FILE.search(f" {file}") and not words.DOCS_FILE.fullmatch(file) for file in named
    )


def _is_docs(line: str) -> bool:
    if words.DOCUMENT.match(line):
        return not _names_source(line) or _changes_docs(line)
    if words.WRITE_DOCS.match(line) or words.CONFIGURE_TOOL.match(line):
        return not _names_source(line)
    return words.EDIT.match(line) is not None and _changes_docs(line) and not _names_source(line)


def _changes_docs(line: str) -> bool:
    """Return whether the line names documents or settings as what is to be changed, not as a reference."""
    return any(not words.REFERS_TO.search(line[: found.start()]) for found in words.DOCS_FILE.finditer(line))
