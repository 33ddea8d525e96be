"""Commands that a judge asks for: which may be run in the sandbox, decided by how they begin."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence

ALLOWED = (
    *("npx tsc", "npx eslint", "npx vitest run", "npx jest", "npm test", "npm run test", "npm run build"),
    *("npm run lint", "npm run typecheck", "npm ls", "pnpm test", "yarn test", "tsc", "eslint"),
    *("pytest", "python -m pytest", "uv run pytest", "ruff check", "mypy", "make test", "make check"),
    *("cargo check", "cargo test", "cargo clippy", "go build", "go test", "go vet"),
)
"""What may be run unless the settings say otherwise: each entry allows every command that begins with it."""

_LONGEST = 2000
_NEEDS_SHELL = re.compile(r"[;|&<>()$`\\\x00-\x1f\x7f]")
_WILD = re.compile(r"\w[\w:.-]*")


def parse(command: str) -> tuple[str, ...]:
    """Return the words of a command. ValueError with the reason when only a shell would understand it."""
    command = command.strip()
    if len(command) > _LONGEST:
        raise ValueError(f"the command is longer than {_LONGEST} characters")
    if found := _NEEDS_SHELL.search(re.sub(r"'[^'\n]*'", "''", command)):
        raise ValueError(f"{found[0]!r} needs a shell, and no shell is ever started")
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise ValueError(f"the command cannot be split into words: {error}") from None
    if not words or not words[0]:
        raise ValueError("the command is empty")
    return words


def find_refusal(argv: Sequence[str], rules: Iterable[str]) -> str | None:
    """Return why a command may not be run; None when it may."""
    if any(_begins(argv, rule.split()) for rule in rules):
        return None
    return f"{argv[0]!r} with these words is not on the list of allowed diagnostics"


def _begins(argv: Sequence[str], rule: Sequence[str]) -> bool:
    pairs = zip(argv, rule, strict=False)
    fits = all(bool(_WILD.fullmatch(word)) if wanted == "*" else word == wanted for word, wanted in pairs)
    return 0 < len(rule) <= len(argv) and fits
