"""Addresses of repositories: which are accepted, how they compare, which commit a remote has there."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from segue.domain.errors import UsageError, WorkspaceError
from segue.system.git.folders import COMMIT
from segue.system.git.outside import NO_REPOSITORY, run_git

_SCHEMES = {"https": 443, "http": 80, "ssh": 22, "git": 9418}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SCP = re.compile(r"(?:(?P<user>[\w.+-]+)@)?(?P<host>[\w.-]+|\[[0-9a-fA-F:.]+\]):(?P<path>[^-].*)")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_DENIED = re.compile(
    r"authentication failed|permission denied|could not read (username|password)|access denied|"
    r"\b40[13]\b|not found|repository .* does not exist|prompts disabled|host key verification",
    re.IGNORECASE,
)
_AWAY = re.compile(
    r"could not resolve|connection|timed out|unable to access|network is unreachable|early eof|hung up",
    re.IGNORECASE,
)


def canonical_url(url: str) -> str:
    """Return an address as it is compared and shown: without credentials, `.git` and a slash at its end.

    Raises UsageError for what is not the address of a repository, or would make git run a program.
    """
    if _CONTROL.search(url) or url.startswith("-") or not url.strip():
        raise _refuse(url, "it is empty, begins with a dash or contains control characters")
    if url.startswith("/") or _DRIVE.match(url):
        return _shorten(url)
    if "://" in url and "::" not in url.partition("://")[0]:
        return _canonical(url)
    found = None if "::" in url else _SCP.fullmatch(url)
    if found is None or found["host"].startswith("-"):
        raise _refuse(url, "it is neither a URL nor host:path nor an absolute path")
    user = f"{found['user']}@" if found["user"] else ""
    return f"{user}{found['host'].lower()}:{_shorten(found['path'])}"


def clean_url(url: str) -> str:
    """Return an address as git is given it: without credentials, but with its `.git`."""
    return canonical_url(url) + (".git" if url.rstrip("/").endswith(".git") else "")


def hint_for_remote(said: str) -> str:
    """Return what helps against what git said about a remote."""
    if _DENIED.search(said):
        return (
            "Give this machine access: `git ls-remote ADDRESS` must work here without asking a question "
            "(a credential helper, or a key in the ssh agent)"
        )
    if _AWAY.search(said):
        return "Check the network of this machine and whether the server answers, then try again"
    return "Fix what git reports, then try again"


def _canonical(url: str) -> str:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise _refuse(url, str(error)) from None
    if parts.scheme == "file":
        if parts.hostname not in (None, "localhost") or not parts.path.startswith("/"):
            raise _refuse(url, "file:// needs an absolute path")
        return _shorten(unquote(parts.path))
    host = parts.hostname or ""
    if (
        parts.scheme not in _SCHEMES
        or not host
        or host.startswith("-")
        or (parts.username or "").startswith("-")
    ):
        raise _refuse(url, f"only {', '.join(_SCHEMES)} and file are accepted")
    user = f"{parts.username}@" if parts.scheme == "ssh" and parts.username else ""
    host = f"[{host}]" if ":" in host else host
    where = host if port in (None, _SCHEMES[parts.scheme]) else f"{host}:{port}"
    return f"{parts.scheme}://{user}{where}{_shorten(parts.path)}"


def has_secret(url: str) -> bool:
    """Return whether an address contains a password."""
    return "://" in url and urlsplit(url).password is not None


def _shorten(path: str) -> str:
    return path.rstrip("/").removesuffix(".git").rstrip("/") or "/"


def _refuse(url: str, why: str) -> UsageError:
    shown = _CONTROL.sub("?", url)[:200]
    return UsageError(
        f"{shown!r} is not accepted as the address of a repository: {why}.",
        hint="Give it as https://host/path, ssh://host/path, host:path or an absolute path",
    )


_TIMEOUT = 120.0


async def remote_commit(url: str, branch: str) -> tuple[str, str]:
    """Return a branch of a remote and its commit; without a name, the branch that is checked out there."""
    if COMMIT.fullmatch(branch):
        return "", branch
    wanted = ["--symref", "--", url, f"refs/heads/{branch}" if branch else "HEAD"]
    done = await run_git(Path.home(), "ls-remote", *wanted, extra=NO_REPOSITORY, timeout=_TIMEOUT)
    shown = canonical_url(url)
    if done.exit_code != 0:
        said = done.err.decode("utf-8", "replace").strip().splitlines()
        raise WorkspaceError(
            f"{shown} cannot be read: {said[-1] if said else 'git gave no reason'}",
            kept="Nothing was submitted.",
            hint=f"Try: git ls-remote {shown}",
        )
    name, commit = branch, ""
    for line in done.out.decode("utf-8", "replace").splitlines():
        first, _, ref = line.partition("\t")
        if first.startswith("ref: refs/heads/"):
            name = first.removeprefix("ref: refs/heads/")
        elif COMMIT.fullmatch(first) and ref in ("HEAD", f"refs/heads/{branch}"):
            commit = first
    if not commit:
        raise WorkspaceError(f"{shown} has no branch {branch or 'HEAD'}.", kept="Nothing was submitted.")
    return name, commit
