"""The environment of a child process: an allow-list, so that keys are not leaked."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import cache

_NAMES = frozenset(
    (
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TEMP", "TMP"),
        *("TERM", "COLORTERM", "NO_COLOR", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"),
        *("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
        *("SSH_AUTH_SOCK", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME"),
        *("GIT_COMMITTER_EMAIL", "GIT_SSL_CAINFO", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"),
        *("GIT_CONFIG_NOSYSTEM", "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "APPDATA"),
        *("LOCALAPPDATA", "PROGRAMDATA", "PROGRAMFILES", "PROGRAMFILES(X86)", "USERPROFILE", "USERNAME"),
        *("USERDOMAIN", "HOMEDRIVE", "HOMEPATH", "NUMBER_OF_PROCESSORS", "PROCESSOR_ARCHITECTURE", "OS"),
    )
)
_PREFIXES = ("LC_", "XDG_")


def child_environment(passed: Iterable[str] = (), extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return a child's environment: the allowed variables, those named in `passed`, and `extra`."""
    names, known = set(passed), dict(os.environ)
    kept = {name: known[name] for name in known if name in names or _allowed(name)}
    return {**kept, **(extra or {})}


@cache
def _allowed(name: str) -> bool:
    upper = name.upper()
    return upper in _NAMES or upper.startswith(_PREFIXES)
