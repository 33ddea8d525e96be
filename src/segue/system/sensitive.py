"""Find the secrets to redact: in the environment, in addresses, in files of projects, git and tools.

Files of tools are read by a rule and not by a parser for each, in order to remove what is secret in them.
Nothing is waited for: whatever is no plain file of a usual size is left out.
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

from segue.system.files import list_folder, read_start
from segue.system.redact import SHORTEST
from segue.system.shapes import looks_random

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
    *("postgres", "production", "required", "undefined"),
}
"""Words that stand where a secret would: to remove them everywhere would garble everything."""

_USER = re.compile(r"://[^\s:/?#@]*:(?!\d{1,5}(?:[/?#,]|$))(\S+)@")
_FIELD = re.compile(
    r"(?i)(?:^|[?&;\s])(?:\w*(?:password|passwd|passphrase|secret|token|api_?key)|pwd|pass|sig|signature|auth"
    r"|(?:account|sharedaccess|access)_?key)\s*=\s*('(?:[^'\\]|\\.)*'|[^\s;&]+)"
)
_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][\w.]*)\s*=\s*(.*)")
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
    text = read_start(path, _FILE_BYTES, follow=False).decode("utf-8", "replace")
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
    """Return what a plain file contains, of a usual size; links of the user's are followed."""
    data = read_start(path, _FILE_BYTES + 1)
    return data.decode("utf-8", "replace") if len(data) <= _FILE_BYTES else ""


_OWN = (
    *(".netrc", "_netrc", ".git-credentials", ".config/git/credentials", ".npmrc", ".yarnrc", ".yarnrc.yml"),
    *(".pypirc", ".pip/pip.conf", ".config/pip/pip.conf", ".m2/settings.xml", ".docker/config.json"),
    *(".pgpass", ".my.cnf", ".gradle/gradle.properties", ".nuget/NuGet/NuGet.Config"),
    *(".config/containers/auth.json", ".config/uv/uv.toml", ".config/glab-cli/config.yml", ".config/hub"),
    *(".kube/config", ".cache/huggingface/token"),
)
"""Files of tools that are known to have credentials and whose names do not say so."""

_NAMED = re.compile(r"(?i)(?:^|[._-])(?:credentials?|auth|tokens?|secrets?|hosts)(?:\.\w{2,7}){0,2}$")
"""Names of files that say that they have credentials, in the folder of a tool."""

_FOLDERS, _ENTRIES, _TOOL_FILES = 300, 100, 200
_FRESH = 60.0
"""Seconds for which what was found is used again: pages are shown by the dozen."""

_USER_TOKEN = re.compile(r"://([^\s:/?#@\"']{8,})(?::x-oauth-basic)?@")
_HEADER = re.compile(r"(?i)authorization\s*[:=]\s*[\"']?\s*(?:basic|bearer|token)\s+([^\s\"',]{8,})")
_PAIR = re.compile(
    r"([A-Za-z_][\w.-]*)[\"']?(?:\s*[=:>]\s*|[ \t]+)(?:\"((?:[^\"\\\n]|\\.)*)\"|'([^'\n]*)'|([^\s\"'<>,;]+))"
)
_WORD = re.compile(r"[^\s\"'<>,;=]{16,}")
_ELSEWHERE = re.compile(r"^(?:\$|~?/|file:|\w+\.exe$)|\$\{")
"""Values that say where a secret is."""


def repository_secrets(folder: Path) -> list[str]:
    """Return the secrets in the configuration of a folder's repository: in addresses and headers."""
    git = next((place / ".git" for place in (folder, *folder.parents) if (place / ".git").exists()), None)
    if git is None:
        return []
    return keep_secret_values(one for path in _configurations(git) for one in _in_addresses(_read(path)))


def user_secrets() -> list[str]:
    """Return the secrets in the files of the user's tools, as they were less than a minute ago."""
    home = os.path.expanduser("~")  # noqa: PTH111 - Path.home() fails where there is none
    return _user_secrets(Path(home), int(time.monotonic() / _FRESH))


@lru_cache(maxsize=1)
def _user_secrets(home: Path, _minute: int) -> list[str]:
    settings = (home / ".gitconfig", home / ".config" / "git" / "config")
    found = [one for path in settings for one in _in_addresses(_read(path))]
    files = dict.fromkeys([*(home / name for name in _OWN), *islice(_named_files(home), _TOOL_FILES)])
    return keep_secret_values([*found, *(one for path in files for one in _in_credentials(_read(path)))])


def _configurations(git: Path) -> Iterator[Path]:
    """Yield the files with the configuration of a repository, of a work tree and of submodules."""
    if not git.is_dir():
        pointed = os.fsdecode(read_start(git)).removeprefix("gitdir:").strip()
        git = git.parent / pointed if pointed else git
    shared = _read(git / "commondir").strip()
    for place in dict.fromkeys((git, git / shared)):
        yield from (place / "config", place / "config.worktree")
        yield from islice(place.glob("modules/**/config"), _TOOL_FILES)


def _named_files(home: Path) -> Iterator[Path]:
    """Yield the files in the folders of tools whose names say that they have credentials."""
    tools = [one for one in list_folder(home, _FOLDERS) if one.name.startswith(".")]
    for place in (*tools, *list_folder(home / ".config", _FOLDERS)):
        named = (one for one in list_folder(Path(place.path), _ENTRIES) if _NAMED.search(one.name))
        yield from (Path(one.path) for one in named)


def _in_addresses(text: str) -> Iterator[str]:
    """Yield what addresses and headers have: passwords, and tokens in place of a user."""
    for line in text.splitlines() if "://" in text or "uthorization" in text.lower() else ():
        yield from passwords_in(line)
        yield from (name for name in _USER_TOKEN.findall(line) if len(name) >= 20 or looks_random(name))
        for value in _HEADER.findall(line):
            yield from (value, *_behind_user(value))


def _in_credentials(text: str) -> Iterator[str]:
    """Yield the values in a file of credentials: those named like secrets, and whatever looks random."""
    yield from _in_addresses(text)
    for found in _PAIR.finditer(text):
        name, value = found[1], found[2] or found[3] or found[4] or ""
        if is_secret_name(name) and not _ELSEWHERE.search(value):
            yield from (value, *_behind_user(value))
    yield from (word for word in _WORD.findall(text) if looks_random(word))


def _behind_user(value: str) -> Iterable[str]:
    """Return the password in what is sent for one: the base64 of `user:password`."""
    try:
        text = base64.b64decode(value, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return ()
    user, colon, password = text.partition(":")
    return (password,) if colon and re.fullmatch(r"[\w.@ -]{0,100}", user) else ()
