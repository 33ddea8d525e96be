"""Commands that a judge asks for: which may be run, decided without a shell and without running anything."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence

ALLOWED = (
    *("npx tsc", "npx eslint", "npx vitest run", "npx jest", "npm test", "npm run test", "npm run build"),
    *("npm run lint", "npm run typecheck", "npm ls", "pnpm test", "yarn test", "tsc", "eslint"),
    *("pytest", "python -m pytest", "uv run pytest", "ruff check", "mypy"),
    *(
        "cargo check",
        "cargo test",
        "cargo clippy",
        "go build",
        "go test",
        "go vet",
        "make test",
        "make check",
    ),
)
"""What may be run unless the settings say otherwise: each entry allows every command that begins with it."""

_LONGEST = 2000
_PIECE = re.compile(r"'[^']*'|\"[^\"]*\"|.", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_OPERATORS = frozenset(";|&<>()")
_EXPANDED = re.compile(r"[$`\\]")
_WILD = re.compile(r"\w[\w:.-]*")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]|\\\\")

_EVERYWHERE = frozenset(
    [
        *("-c", "-e", "--command", "--config", "--config-file", "--configuration", "--cwd", "--directory"),
        *("--env-file", "--eval", "--exec", "--experimental-loader", "--fix", "--import", "--loader"),
        *("--node-options", "--output-file", "--plugin", "--plugins", "--prefix", "--print", "--rcfile"),
        *("--require", "--rootdir", "--script-shell", "--shell", "--userconfig", "--globalconfig"),
    ]
)
_OF_PROGRAM = {
    "pytest": {"-p", "-o", "--override-ini", "--confcutdir", "--basetemp", "--pyargs", "--pdb", "--pdbcls"}
    | {"--log-file", "--junitxml", "--junit-xml", "--debug", "--trace", "--pastebin"},
    "npm": {"-C", "-w", "--workspace", "-g", "--global", "--package", "--call"},
    "eslint": {"-o", "--rulesdir", "--resolve-plugins-relative-to", "--parser", "--init"},
    "tsc": {"--outDir", "--outFile", "--init", "-w", "--watch", "--declarationDir", "--tsBuildInfoFile"},
    "jest": {"--globalSetup", "--globalTeardown", "--runner", "--testRunner", "--transform"}
    | {"--setupFiles", "--setupFilesAfterEach", "--watch", "--watchAll", "--rootDir", "--resolver"},
    "vitest": {"--root", "-r", "--dir", "--watch", "-w", "--globalSetup"},
    "mypy": {
        "--python-executable",
        "--install-types",
        "--custom-typeshed-dir",
        "--shadow-file",
        "--cache-dir",
    },
    "ruff": {"--unsafe-fixes", "-o", "--add-noqa", "--watch", "-w", "--cache-dir"},
    "cargo": {"-Z", "-C", "--manifest-path", "--target-dir", "--artifact-dir", "--fix"},
    "go": {"-exec", "-toolexec", "-o", "-modfile", "-overlay", "-C", "-vettool", "-ldflags", "-gcflags"}
    | {"-asmflags", "-gccgoflags", "-outputdir", "-pkgdir"},
    "make": {"-f", "--file", "--makefile", "-C", "-I", "--include-dir", "--eval", "-E"},
}
"""Options that load other code, write elsewhere or wait for somebody, by a word of the allowed command."""

_ASSIGNS = frozenset({"make"})
"""Programs for which NAME=VALUE is a variable, such as the shell to use."""

_ARGUMENT_FILES = frozenset({"pytest", "mypy", "tsc"})
"""Programs that read arguments from @FILE: the ones in that file."""

_FLAGS = "vqxslhVn"
"""Letters that take no value and may stand before another one: `-xp`."""


def parse(command: str) -> tuple[str, ...]:
    """Return the words of a command. ValueError with the reason when only a shell would understand it."""
    if len(command) > _LONGEST:
        raise ValueError(f"the command is longer than {_LONGEST} characters")
    if _CONTROL.search(command.strip()):
        raise ValueError("the command has a line break or another control character")
    for piece in _PIECE.findall(command):
        _refuse_shell(piece)
    try:
        words = tuple(shlex.split(command.strip()))
    except ValueError as error:
        raise ValueError(f"the command cannot be split into words: {error}") from None
    if not words or not words[0]:
        raise ValueError("the command is empty")
    if "=" in words[0]:
        raise ValueError(f"variables cannot be set: {words[0]}")
    return words


def find_refusal(argv: Sequence[str], rules: Iterable[str]) -> str | None:
    """Return why a command may not be run; None when it may."""
    if not argv:
        return "the command is empty"
    known = [tuple(rule.split()) for rule in rules]
    matching = [rule for rule in known if _begins(argv, rule)]
    if not matching:
        return f"{argv[0]!r} with these words is not on the list of allowed diagnostics"
    rule = max(matching, key=len)
    programs = {*rule, *(word.rpartition("/")[2] for word in argv[: len(rule)])}
    return next(filter(None, (_find_refused_word(word, programs) for word in argv[len(rule) :])), None)


def _refuse_shell(piece: str) -> None:
    quoted = len(piece) > 1
    if quoted and piece[0] == "'":
        return
    if _EXPANDED.search(piece) or (not quoted and piece in _OPERATORS):
        raise ValueError(f"{piece} needs a shell, and no shell is ever asked")


def _begins(argv: Sequence[str], rule: Sequence[str]) -> bool:
    if not rule or len(argv) < len(rule):
        return False
    return all(
        _WILD.fullmatch(word) is not None if wanted == "*" else word == wanted
        for word, wanted in zip(argv, rule, strict=False)
    )


def _find_refused_word(word: str, programs: set[str]) -> str | None:
    """Return why one of the words after the allowed beginning is refused."""
    name, assigned, value = word.partition("=")
    if word.startswith("-"):
        denied = _EVERYWHERE.union(*(_OF_PROGRAM.get(program, set()) for program in programs))
        if _denied_option(name, denied, single="go" in programs):
            return f"{name} may turn the command into another one"
        return _outside(value) if assigned else _outside(_attached(word))
    if assigned and programs & _ASSIGNS:
        return f"{word} would set a variable"
    if word.startswith("@") and programs & _ARGUMENT_FILES:
        return f"{word} would read its arguments from a file"
    return _outside(word) or (_outside(value) if assigned else None)


def _denied_option(name: str, denied: frozenset[str], *, single: bool) -> bool:
    """Return whether the option, an abbreviation of it or a cluster with it is denied."""
    if name.startswith("--") and any(option.lower().startswith(name.lower()) for option in denied):
        return name != "--"
    if single:  # Go spells a long option with one dash or two
        return f"-{name.lstrip('-')}" in denied
    if name.startswith("--"):
        return False
    letters = name[1:].lstrip(_FLAGS)
    return name in denied or f"-{letters[:1]}" in denied or f"-{name[1:2]}" in denied


def _attached(word: str) -> str:
    """Return the value in `-I/usr/include`."""
    return word[2:] if not word.startswith("--") else ""


def _outside(path: str) -> str | None:
    if path.startswith(("/", "~", "file:")) or _DRIVE.match(path):
        return f"{path} is outside the project"
    if ".." in re.split(r"[/\\]", path):
        return f"{path} may lead out of the project"
    return None
