"""Find the secrets in the files of git and package managers, by a rule and not by a parser for each.

They are read in order to remove them. Nothing is followed or waited for: whatever is no plain file of a usual
size is left out.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path

from segue.domain.pattern import pattern
from segue.system.sensitive import is_secret_name, keep_secret_values, passwords_in
from segue.system.shapes import looks_random

_OWN = (
    *(".netrc", "_netrc", ".git-credentials", ".config/git/credentials", ".npmrc", ".yarnrc", ".yarnrc.yml"),
    *(
        ".pypirc",
        ".pip/pip.conf",
        ".config/pip/pip.conf",
        ".m2/settings.xml",
        ".docker/config.json",
        ".pgpass",
    ),
    *(".my.cnf", ".gradle/gradle.properties", ".nuget/NuGet/NuGet.Config", ".config/containers/auth.json"),
    *(
        ".config/uv/uv.toml",
        ".config/glab-cli/config.yml",
        ".config/hub",
        ".kube/config",
        ".cache/huggingface/token",
    ),
)
"""Files of tools that are known to have credentials and whose names do not say so."""

_NAMED = pattern(r"(?i)(?:^|[._-])(?:credentials?|auth|tokens?|secrets?|hosts)(?:\.\w{2,7}){0,2}$")
"""Names of files that say that they have credentials, in the folder of a tool."""

_FILE_BYTES = 256 * 1024
_FOLDERS, _ENTRIES, _FILES = 300, 100, 200
_FRESH = 60.0
"""Seconds for which what was found is used again: pages are shown by the dozen."""

_USER = pattern(r"://([^\s:/?#@\"']{8,})(?::x-oauth-basic)?@")
_HEADER = pattern(r"(?i)authorization\s*[:=]\s*[\"']?\s*(?:basic|bearer|token)\s+([^\s\"',]{8,})")
_PAIR = pattern(
    r"([A-Za-z_][\w.-]*)[\"']?(?:\s*[=:>]\s*|[ \t]+)(?:\"((?:[^\"\\\n]|\\.)*)\"|'([^'\n]*)'|([^\s\"'<>,;]+))"
)
_WORD = pattern(r"[^\s\"'<>,;=]{16,}")
_ELSEWHERE = pattern(r"^(?:\$|~?/|file:|\w+\.exe$)|\$\{")
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
    files = dict.fromkeys([*(home / name for name in _OWN), *islice(_named_files(home), _FILES)])
    return keep_secret_values([*found, *(one for path in files for one in _in_credentials(_read(path)))])


def _configurations(git: Path) -> Iterator[Path]:
    """Yield the files with the configuration of a repository, of a work tree and of submodules."""
    if not git.is_dir():
        pointed = _read(git).removeprefix("gitdir:").strip()
        git = git.parent / pointed if pointed else git
    shared = _read(git / "commondir").strip()
    for place in dict.fromkeys((git, git / shared)):
        yield from (place / "config", place / "config.worktree")
        yield from islice(place.glob("modules/**/config"), _FILES)


def _named_files(home: Path) -> Iterator[Path]:
    """Yield the files in the folders of tools whose names say that they have credentials."""
    tools = [path for path in _entries(home, _FOLDERS) if path.name.startswith(".")]
    for place in (*tools, *_entries(home / ".config", _FOLDERS)):
        yield from (path for path in _entries(place, _ENTRIES) if _NAMED.search(path.name))


def _entries(folder: Path, most: int) -> list[Path]:
    try:
        with os.scandir(folder) as found:
            return [Path(entry.path) for entry in islice(found, most)]
    except OSError:
        return []


def _in_addresses(text: str) -> Iterator[str]:
    """Yield what addresses and headers have: passwords, and tokens in place of a user."""
    for line in text.splitlines() if "://" in text or "uthorization" in text.lower() else ():
        yield from passwords_in(line)
        yield from (name for name in _USER.findall(line) if len(name) >= 20 or looks_random(name))
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


def _read(path: Path) -> str:
    """Return what a file contains, if it is a plain one of a usual size; links of the user's are followed."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > _FILE_BYTES:
                return ""
            return file.read(_FILE_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
