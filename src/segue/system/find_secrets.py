"""Find the secrets to remove: in the environment, in addresses, in files of projects, git and tools.

Files of tools are read by a rule and not by a parser for each; what is no plain file
of a usual size is left out.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from pathlib import Path
from urllib.parse import unquote, unquote_plus

from segue.system.files import read_start
from segue.system.redact import SHORTEST

_SECRET_NAME = re.compile(
    r"SECRET|PASSWORD|PASSWD|PASSPHRASE|PASSCODE|CREDENTIAL|CONNECTION_?STRING|WEBHOOK|BEARER|COOKIE"
    r"|(?:(?<!MON|TUR|DON|HOC|JOC)KEY|TOKEN|JWT)S?(?![A-Z])"
    r"|(?:^|_)(?:PAT|PASS|PWD|DSN|AUTH|SAS|SIGNATURE)(?![A-Z])"
)
_HARMLESS_NAME = re.compile(
    r"_(?:PATH|FILE|DIR|SOCK|SOCKET|TYPE|MODE|METHOD|NAME|HEADER|ENABLED|DISABLED)$|^(?:OLD)?PWD$"
)
_HARMLESS_VALUES = {
    *("anonymous", "changeme", "development", "disabled", "localhost", "optional", "password", "placeholder"),
    *("postgres", "production", "redacted", "required", "undefined"),
}
"""Words in the place of a secret: to remove them everywhere would garble everything."""
_PASSWORD = re.compile(r"://[^\s:/?#@]*:(?!\d{1,5}(?:[/?#,]|$))(\S+)@")
_FIELD = re.compile(
    r"(?i)(?:^|[?&;\s])(?:\w*(?:password|passwd|passphrase|secret|token|api_?key)|pwd|pass|sig|signature|auth"
    r"|(?:account|sharedaccess|access)_?key)\s*=\s*('(?:[^'\\]|\\.)*'|[^\s;&]+)"
)
_TOKEN_AS_USER = re.compile(r"://([^\s:/?#@\"']{16,})(?::x-oauth-basic)?@")
_HEADER = re.compile(r"(?i)authorization\s*[:=]\s*[\"']?\s*(?:basic|bearer|token)\s+([^\s\"',]{8,})")
_VARIABLE = re.compile(
    r"(?m)^\W*?(?:export\s+)?([A-Za-z_][\w.]*)[ \t]*=[ \t]*(?:'([^']*)'|\"([^\"]*)\"|(.*?)(?:[ \t]+#.*)?\r?$)"
)
_PAIR = re.compile(
    r"([A-Za-z_][\w.-]*)[\"']?(?:[ \t]*[=:>][ \t]*|[ \t]+)"
    r"(?:\"((?:[^\"\\\n]|\\.)*)\"|'([^'\n]*)'|([^\s\"'<>,;]+))"
)
_ELSEWHERE = re.compile(r"^(?:\$|~?/|file:|\w+\.exe$)|\$\{")
"""How values look that say where a secret is."""
_SAMPLES = ("example", "sample", "template", "dist", "defaults", "schema")
_GIT_FILES = (".gitconfig", ".config/git/config")
_TOOL_FILES = (
    *(".netrc", "_netrc", ".git-credentials", ".config/git/credentials", ".npmrc", ".yarnrc.yml", ".pypirc"),
    *(
        ".config/pip/pip.conf",
        ".cargo/credentials.toml",
        ".m2/settings.xml",
        ".docker/config.json",
        ".pgpass",
    ),
    *(".gradle/gradle.properties", ".config/gh/hosts.yml", ".config/glab-cli/config.yml", ".gem/credentials"),
    *(".aws/credentials", ".kube/config", ".config/pypoetry/auth.toml", ".composer/auth.json"),
    *(".cache/huggingface/token", ".codex/auth.json", ".claude/.credentials.json"),
)
_FILE_BYTES = 256 * 1024
_LONG_LINE = 16
"""From how many characters on a line of a longer secret, such as a key, is one by itself."""
_FRESH = 60.0
"""Seconds for which what was found is used again: pages are shown by the dozen."""


def secrets_of(environ: Mapping[str, str]) -> list[str]:
    """Return the secret values: of variables named like secrets, and passwords inside of addresses."""
    secrets: list[str] = []
    for name, value in environ.items():
        if is_secret_name(name) and not _is_path(value):
            secrets += [value, *(line for line in value.split()[1:] if len(line) >= _LONG_LINE)]
        secrets += passwords_in(value)
    return _keep(secrets)


def is_secret_name(name: str) -> bool:
    """Return whether a name is one of a secret: `API_KEY`, `_authToken`, `oauth_token`."""
    upper = name.upper()
    return _SECRET_NAME.search(upper) is not None and _HARMLESS_NAME.search(upper) is None


def passwords_in(address: str) -> list[str]:
    """Return every text in an address that may be a password or a token, as it is and unquoted.

    An `@` that its owner forgot to quote leaves open where a password ends, so each possible end counts.
    """
    values = [match[1] for match in _PASSWORD.finditer(address)] if "://" in address else []
    values += [part for value in values for part in value.partition("@")[::2] if "@" in value]
    for match in _FIELD.finditer(address) if "=" in address else ():
        value = match[1]
        values.append(re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith("'") else value)
    forms = (form for value in values for form in (value, unquote(value), unquote_plus(value)))
    return list(dict.fromkeys(filter(None, forms)))


def project_secrets(folder: Path) -> list[str]:
    """Return the secrets in the `.env` files of a project, here and up to its root; samples have none."""
    up = [folder, *folder.parents]
    root = next((place for place, path in enumerate(up) if (path / ".git").exists()), 0)
    files = [file for path in up[: root + 1] for file in sorted(path.glob(".env*"))]
    secrets = []
    for file in files[:50]:
        if f"{file.name}.".startswith(".env.") and not file.name.endswith(_SAMPLES):
            for name, single, double, plain in _VARIABLE.findall(_read(file, follow=False)):
                secrets += secrets_of({name: single or double.replace("\\n", "\n") or plain})
    return secrets


def repository_secrets(folder: Path) -> list[str]:
    """Return the secrets in the configuration of a folder's repository: in addresses and headers."""
    git = next((place / ".git" for place in (folder, *folder.parents) if (place / ".git").exists()), None)
    if git is None:
        return []
    if not git.is_dir():
        git = git.parent / (_read(git).removeprefix("gitdir:").strip() or ".")
    places = dict.fromkeys((git, git / _read(git / "commondir").strip()))
    files = [
        file for place in places for file in (place / "config", *islice(place.glob("modules/**/config"), 200))
    ]
    return _keep(secret for file in files for secret in _in_addresses(_read(file)))


def user_secrets() -> list[str]:
    """Return the secrets in the files of the user's tools, as they were less than a minute ago."""
    home = os.path.expanduser("~")  # noqa: PTH111 - Path.home() fails where there is none
    return _user_secrets(Path(home), int(time.monotonic() / _FRESH))


@lru_cache(maxsize=1)
def _user_secrets(home: Path, _minute: int) -> list[str]:
    secrets = [secret for name in _GIT_FILES for secret in _in_addresses(_read(home / name))]
    for name in _TOOL_FILES:
        text = _read(home / name)
        secrets += _in_addresses(text)
        for pair in _PAIR.finditer(text):
            value = pair[2] or pair[3] or pair[4] or ""
            if is_secret_name(pair[1]) and not _ELSEWHERE.search(value):
                secrets += [value, *_password_in_basic(value)]
        secrets += [text.strip()] if len(text.split()) == 1 else []
        secrets += [line.rpartition(":")[2] for line in text.splitlines() if name == ".pgpass"]
    return _keep(secrets)


def _keep(values: Iterable[str]) -> list[str]:
    """Return the values that may be secrets: neither too short nor words that stand in their place."""
    long = (value for value in dict.fromkeys(values) if len(value.strip()) >= SHORTEST)
    return [value for value in long if value.lower() not in _HARMLESS_VALUES]


def _is_path(value: str) -> bool:
    try:
        return value.startswith(("/", "~/", "./")) and Path(value).expanduser().exists()
    except (OSError, RuntimeError, ValueError):
        return False


def _read(path: Path, *, follow: bool = True) -> str:
    data = read_start(path, _FILE_BYTES + 1, follow=follow)
    return data[:_FILE_BYTES].decode("utf-8", "replace") if len(data) <= _FILE_BYTES or not follow else ""


def _in_addresses(text: str) -> Iterator[str]:
    """Yield what addresses and headers have: passwords, and tokens in place of a user."""
    for line in text.splitlines():
        yield from passwords_in(line)
        yield from _TOKEN_AS_USER.findall(line)
        for value in _HEADER.findall(line):
            yield from (value, *_password_in_basic(value))


def _password_in_basic(value: str) -> Iterable[str]:
    """Return the password in what is sent for one: the base64 of `user:password`."""
    try:
        user, colon, password = base64.b64decode(value, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return ()
    return (password,) if colon and re.fullmatch(r"[\w.@ -]{0,100}", user) else ()
