"""Finds the commands that a text names, so that Segue itself can run them: no shell, no guessing."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from msgspec import Struct

from segue.domain.pattern import pattern

_MOST = 20
_LONGEST = 1000

_FENCE = pattern(
    r"^[ \t>]*(`{3,}|~{3,})[ \t]*([\w+-]*)[^\n]*\n(.*?)(?:^[ \t>]*\1|\Z)", re.DOTALL | re.MULTILINE
)
_INLINE = pattern(r"(?<!`)(`{1,2})(?!`)([^`\n]+)\1(?!`)")
_SHELLS = {"bash", "sh", "shell", "zsh", "console", "terminal", "shell-session", "sh-session"}
_PROMPT = pattern(r"\$\s+(?=\S)")

_SINGLE_QUOTED = pattern(r"'[^']*'")
_DOUBLE_QUOTED = pattern(r'"(?:[^"\\]|\\.)*"')
_NEEDS_SHELL = pattern(r"[|&;<>()*]|\{[^}]*,[^}]*\}|(?:^|\s)~|^\w+=|…|(?<![/\w])\.\.\.|\w\.\.\.$")
_EXPANDS = pattern(r"[$`]")

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
_OUTWARD = pattern(r"[\s:](?:publish|push|deploy|apply|destroy|delete|release)(?=\s|$)")
"""Words of commands that reach beyond the repository: those are for people and agents."""
_SCRIPT = pattern(r"\.{0,2}/?(?:[\w.-]+/)*[\w-]+(?:\.(?:sh|bash|py|mjs|js|rb|pl))?")
_ASKS_TO_RUN = pattern(
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
