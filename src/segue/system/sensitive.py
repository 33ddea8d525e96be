"""Find the secrets to redact: in the environment, in a project's `.env` files, in addresses."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote, unquote_plus

from segue.domain.pattern import pattern
from segue.system.redact import SHORTEST

_SECRET_NAME = pattern(
    r"SECRET|PASSWORD|PASSWD|PASSPHRASE|PASSCODE|CREDENTIAL|CONNECTION_?STRING|WEBHOOK|BEARER|COOKIE"
    r"|(?:(?<!MON|TUR|DON|HOC|JOC)KEY|TOKEN|JWT)S?(?![A-Z])"
    r"|(?:^|_)(?:PAT|PASS|PWD|DSN|AUTH|SAS|SIGNATURE)(?![A-Z])"
)
_HARMLESS_NAME = pattern(
    r"_(?:PATH|FILE|DIR|SOCK|SOCKET|TYPE|MODE|METHOD|NAME|HEADER|ENABLED|DISABLED)$|^(?:OLD)?PWD$"
)
_HARMLESS_VALUES = {
    *("anonymous", "changeme", "development", "disabled", "localhost", "optional", "password", "placeholder"),
    *("postgres", "production", "required", "undefined"),
}
"""Words that stand where a secret would: to remove them everywhere would garble everything."""

_USER = pattern(r"://[^\s:/?#@]*:(?!\d{1,5}(?:[/?#,]|$))(\S+)@")
_FIELD = pattern(
    r"(?i)(?:^|[?&;\s])(?:\w*(?:password|passwd|passphrase|secret|token|api_?key)|pwd|pass|sig|signature|auth"
    r"|(?:account|sharedaccess|access)_?key)\s*=\s*('(?:[^'\\]|\\.)*'|[^\s;&]+)"
)
_LINE = pattern(r"\s*(?:export\s+)?([A-Za-z_][\w.]*)\s*=\s*(.*)")
_SAMPLES = ("example", "sample", "template", "dist", "defaults", "schema")
_FILE_BYTES = 256 * 1024
_FILES = 50
_LONG_LINE = 16
"""From how many characters on a line of a longer secret, such as a key, is one by itself."""


def secrets_of(environ: Mapping[str, str]) -> list[str]:
    """Return the secret values: of variables named like secrets, and passwords inside of addresses."""
    found: dict[str, None] = {}
    for name, value in environ.items():
        if is_secret_name(name) and not _is_path(value):
            lines = [line.strip() for line in value.splitlines()[1:] or [] if len(line.strip()) >= _LONG_LINE]
            found.update(dict.fromkeys([value, *lines]))
        if "=" in value or "://" in value:
            found.update(dict.fromkeys(passwords_in(value)))
    return keep_secret_values(found)


def is_secret_name(name: str) -> bool:
    """Return whether a name is one of a secret: `API_KEY`, `_authToken`, `oauth_token`."""
    upper = name.upper()
    return _SECRET_NAME.search(upper) is not None and _HARMLESS_NAME.search(upper) is None


def keep_secret_values(values: Iterable[str]) -> list[str]:
    """Return those values that may be secrets: neither too short nor words that stand in their place."""
    return [
        value
        for value in dict.fromkeys(values)
        if len(value.strip()) >= SHORTEST and value.lower() not in _HARMLESS_VALUES
    ]


def _is_path(value: str) -> bool:
    """Return whether a value only says where something is."""
    try:
        return value.startswith(("/", "~/", "./")) and Path(value).expanduser().exists()
    except (OSError, RuntimeError, ValueError):
        return False


def passwords_in(address: str) -> list[str]:
    """Return every text in an address that may be a password or a token, as it is and unquoted.

    An `@` that its owner forgot to quote leaves open where a password ends, so each possible end counts.
    """
    found = [match[1] for match in _USER.finditer(address)]
    for whole in tuple(found):
        first, _, rest = whole.partition("@")
        found += [first, rest] if rest else []
    for match in _FIELD.finditer(address):
        value = match[1]
        found.append(re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith("'") else value)
    both = [form for value in found for form in (value, unquote(value), unquote_plus(value))]
    return list(dict.fromkeys(filter(None, both)))


def project_secrets(folder: Path) -> list[str]:
    """Return the secrets in the `.env` files of a project, here and up to its root; samples have none.

    They are read in order to remove them, so a project need not be trusted for it.
    """
    up = [folder, *folder.parents]
    root = next((place for place, path in enumerate(up) if (path / ".git").exists()), 0)
    files = [file for path in up[: root + 1] for file in _env_files(path)]
    return [secret for file in files[:_FILES] for secret in secrets_of(dict(_variables(file)))]


def _env_files(folder: Path) -> list[Path]:
    try:
        found = sorted(folder.glob(".env*"))
    except OSError:
        return []
    names = [path for path in found if path.name == ".env" or path.name.startswith(".env.")]
    return [path for path in names if not path.name.lower().endswith(_SAMPLES)]


def _variables(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the variables of a file; a value in quotes may go over several lines."""
    text = _read(path)
    place = 0
    while found := _LINE.search(text, place):
        name, value, place = found[1], found[2].strip(), found.end()
        if value[:1] in ("'", '"'):
            quote, start = value[0], found.start(2) + len(found[2]) - len(found[2].lstrip()) + 1
            end = text.find(quote, start)
            if end >= 0:
                value, place = text[start:end], end
                value = value.replace("\\n", "\n") if quote == '"' else value
        else:
            value = value.split(" #")[0].rstrip()
        yield name, value


def _read(path: Path) -> str:
    """Return what a file contains, if it is a plain one of a usual size; nothing else is opened."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        with os.fdopen(os.open(path, flags), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return ""
            return file.read(_FILE_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
