"""The one door to git: it runs with the settings that were there when the session first looked.

Git reads its configuration from the folder that `GIT_COMMON_DIR` names. Segue makes such a folder for each
work tree: its `config` has all settings as they were, without what would start a program that no commit
needs, and everything else in it is a link to the repository. What agents write into the repository's
configuration later decides nothing here.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote, unquote

from msgspec import Struct

from segue.domain.errors import AGAIN, ToolMissing, WorkspaceError
from segue.system import identity
from segue.system.files import private_folder
from segue.system.git.folders import GitPlace
from segue.system.process.capture import Captured, capture, child_environment
from segue.system.programs import describe_missing, find
from segue.system.reading import suggest_path

_log = logging.getLogger(__name__)

TIMEOUT = 300.0
PLAIN_DIFF = ("--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty")
"""For each `git diff` that looks at files."""
NO_REPOSITORY = {"GIT_DIR": os.devnull}
"""For a git that needs no repository: it must not find one by chance."""
NOT_A_REPOSITORY = "Target path is not a git repository"
Settings = tuple[tuple[str, str | None], ...]
"""Names and values in git's order, where the last one counts; None: the name alone, which means true."""
_LINKED = (
    *("HEAD", "annex", "gc.pid", "git-crypt", "index", "info", "lfs", "logs", "objects"),
    *("packed-refs", "refs", "reftable", "shallow", "worktrees"),
)
"""What git reads and writes in the repository itself."""
_MADE = {
    "logs": frozenset(("branch", "checkout", "fetch", "merge", "reset", "stash", "switch", "update-ref")),
    "worktrees": frozenset(("worktree",)),
}
"""Folders that these commands make."""
_ENVIRONMENT = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_EDITOR": ":",
    "GIT_PAGER": "cat",
}
_PASSED = frozenset(
    (
        *("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSH_VARIANT"),
        *("GIT_ASKPASS", "GIT_PROXY_COMMAND", "GIT_EXEC_PATH", "GIT_DISCOVERY_ACROSS_FILESYSTEM"),
        *("GIT_CEILING_DIRECTORIES", "GIT_ALLOW_PROTOCOL", "GIT_PROTOCOL", "GIT_LFS_SKIP_SMUDGE"),
    )
)
_FAMILIES = ("GIT_SSL_", "GIT_HTTP_", "GIT_TRACE", "GPG_", "GNUPG", "SSH_")
_GIVEN = ("GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_", "GIT_CONFIG_PARAMETERS")
"""The user's settings in the environment: they are pinned with the others."""
_LEFT_OUT = re.compile(
    r"core\.(worktree|bare|fsmonitor|hookspath|pager|editor|alternaterefscommand|commitgraph)"
    r"|include\..*|includeif\..*|alias\..*|hook\..*|trace2?\..*|extensions\.worktreeconfig"
    r"|diff\.external|diff\..*\.(command|textconv)|gc\.recentobjectshook|rerere\..*|log\.showsignature"
    r"|(submodule|fetch|push)\.recursesubmodules|status\.submodulesummary|diff\.ignoresubmodules",
    re.DOTALL,
)
"""What would start a program, go into submodules or lead elsewhere; included files are read already."""
_ALWAYS: Settings = (
    ("core.fsmonitor", "false"),
    ("core.hookspath", os.devnull),
    ("core.commitgraph", "false"),
    ("submodule.recurse", "false"),
    ("fetch.recursesubmodules", "false"),
    ("push.recursesubmodules", "no"),
    ("diff.ignoresubmodules", "all"),
    ("rerere.enabled", "false"),
)

_BARE: Settings = (("core.bare", "true"),)


class _Pin(Struct):
    """The folder from which git reads the settings of a repository, and what they are."""

    folder: Path
    settings: Settings


_pins: dict[tuple[int, Path], _Pin] = {}
"""By process, for one that was forked must not use what its parent has made, and by the git folder that all
work trees of a repository share: a lane that is made later gets the settings from before."""
_own_folders: dict[int, list[Path]] = {}
"""The folder of each process, and those above it that it has made."""


async def run_git(
    where: Path,
    *args: str,
    stdin: bytes = b"",
    extra: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT,
    limit: int = 64 * 1024**2,
) -> Captured:
    """Run git with the user's own settings, in no repository or in one that Segue has made.

    It asks nothing at the terminal; at most `limit` bytes of output are kept.
    """
    given = {name: value for name, value in os.environ.items() if name.startswith(_GIVEN)}
    return await _run(where, args, {**given, **(extra or {})}, timeout, stdin, limit)


async def _run(
    where: Path, args: Sequence[str], extra: Mapping[str, str], timeout: float, stdin: bytes, limit: int
) -> Captured:
    passed = [name for name in os.environ if name in _PASSED or name.startswith(_FAMILIES)]
    environment = child_environment(passed=passed, extra={**_ENVIRONMENT, **extra})
    began = time.monotonic()
    done = await capture(["git", *args], where, environment, timeout, stdin, limit)
    took = time.monotonic() - began
    _log.debug("git %s in %s: exit code %d, %.2f s", verb_of(args), where, done.exit_code, took)
    return done


def verb_of(args: Sequence[str]) -> str:
    """Return the command of git among its arguments, such as `commit`; empty if there is none."""
    return next((arg for arg in args if arg[:1] != "-" and arg.replace("-", "").isalpha()), "")


async def find_repository(path: Path, timeout: float = TIMEOUT) -> tuple[Path, Path]:
    """Return the top of the work tree that contains a path, and its git folder, as git finds them."""
    if find("git") is None:
        hint = "Install git: https://git-scm.com/downloads"
        raise ToolMissing(f"{describe_missing('git')}.", hint=hint)
    if not path.is_dir():
        raise WorkspaceError(
            f"{NOT_A_REPOSITORY}: {path} is not a folder.{suggest_path(path)}",
            hint="Name the folder of a git repository with --repo",
        )
    try:
        # It only tells where the repository is, and whether its owner is trusted: it starts nothing.
        done = await run_git(path, "rev-parse", "--show-toplevel", "--absolute-git-dir", timeout=timeout)
    except TimeoutError as error:
        hint = "Look whether a file that its configuration includes is a pipe or a device."
        raise WorkspaceError(f"git did not answer in {path}: {error}.", hint=hint) from None
    lines = [os.fsdecode(line) for line in done.out.splitlines()]
    if done.exit_code != 0 or len(lines) != 2:
        raise _no_repository(path, done)
    return Path(lines[0]), Path(lines[1])


def _no_repository(path: Path, done: Captured) -> WorkspaceError:
    why = done.err.decode("utf-8", "replace").strip().splitlines()
    detail = f" ({why[0]})" if why and "not a git repository" not in why[0] else ""
    other = f"Create one with: git init {path}   or name another with --repo"
    hint = next((f"If you trust it: {line.strip()}" for line in why if "safe.directory" in line), other)
    return WorkspaceError(f"{NOT_A_REPOSITORY}: {path}{detail}", hint=hint)


async def run_outside(
    place: GitPlace,
    *args: str,
    stdin: bytes = b"",
    extra: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT,
    limit: int = 64 * 1024**2,
) -> Captured:
    """Run git in a work tree, with the settings that it had when the session began."""
    pin = await _pin(place)
    # Git hands variables on to those that it starts in submodules, whose own settings it reads too.
    variables = {"GIT_DIR": str(place.git_dir), "GIT_WORK_TREE": str(place.root), **as_variables(_ALWAYS)}
    if sys.platform != "win32":  # there are links
        for name, verbs in _MADE.items():  # through a link that leads nowhere, git could not make it
            if not verbs.isdisjoint(args):
                (place.common / name).mkdir(exist_ok=True)
        variables["GIT_COMMON_DIR"] = str(pin.folder)
        variables |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    return await _run(place.root, args, {**variables, **(extra or {})}, timeout, stdin, limit)


def ask_git(place: GitPlace, *args: str) -> bytes:
    """Ask git a short question from synchronous code; empty if it does not answer."""
    from concurrent.futures import ThreadPoolExecutor

    # In a thread with a loop of its own, because the caller's thread may already run one.
    with ThreadPoolExecutor(1) as thread:
        try:
            return thread.submit(asyncio.run, run_outside(place, *args, timeout=60.0)).result().out
        except (OSError, WorkspaceError):
            return b""


async def pinned_settings(place: GitPlace) -> Settings:
    """Return the settings of a work tree as they were when the session began."""
    return (await _pin(place)).settings


async def pin_like(place: GitPlace, other: GitPlace) -> None:
    """Let git read another work tree's settings in this one: its own may be an agent's."""
    key = os.getpid(), place.common
    if key not in _pins:
        settings = (await _pin(other)).settings
        lfs = _lfs_storage(place)
        _pins[key] = _Pin(make_folder(place.common, (*settings, lfs)), settings)


async def set_pinned(place: GitPlace, name: str, value: str) -> None:
    """Write a setting of Segue's own into the repository's configuration."""
    for folder in (place.common, (await _pin(place)).folder):
        done = await run_git(place.root, "config", "--file", str(folder / "config"), name, value)
        if done.exit_code != 0:
            raise WorkspaceError(f"git config failed in {place.root}: {done.said}")
    _pins[os.getpid(), place.common].settings += ((name.lower(), value),)


def as_variables(settings: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """Return settings as git takes them from the environment."""
    found: dict[str, str] = {}
    for name, value in settings:
        number = len(found) // 2
        found[f"GIT_CONFIG_KEY_{number}"] = name
        found[f"GIT_CONFIG_VALUE_{number}"] = "true" if value is None else value
    return {**found, "GIT_CONFIG_COUNT": str(len(found) // 2)}


async def _pin(place: GitPlace) -> _Pin:
    """Return the folder of a work tree; the first time in a session, its settings are read."""
    key = os.getpid(), place.common
    pin = _pins.get(key)
    if pin is None or not pin.folder.is_dir():
        settings = pin.settings if pin is not None else await _list_settings(place)
        lfs = () if any(name == "lfs.storage" for name, _ in settings) else (_lfs_storage(place),)
        folder = make_folder(place.common, (*settings, *lfs))
        pin = _pins.setdefault(key, _Pin(folder, settings))
        pin.folder = folder
    return pin


def _lfs_storage(place: GitPlace) -> tuple[str, str]:
    return "lfs.storage", str(place.common / "lfs")


async def _list_settings(place: GitPlace) -> Settings:
    """Let git list its configuration with everything that it includes, which starts nothing."""
    extra = {"GIT_DIR": str(place.git_dir), "GIT_COMMON_DIR": str(place.common)}
    try:
        done = await run_git(place.root, "config", "--list", "-z", extra=extra, timeout=30.0)
    except TimeoutError as error:
        raise WorkspaceError(
            f"git cannot read its configuration in {place.root}: {error}.",
            kept="Nothing was changed.",
            hint="Look whether a file that it includes is a pipe or a device.",
        ) from None
    if done.exit_code != 0:
        raise WorkspaceError(
            f"git cannot read its configuration in {place.root}: {done.said}",
            kept="Nothing was changed.",
            hint=f"Fix what git reports, then {AGAIN}",
        )
    entries = [entry.partition("\n") for entry in done.out.decode("utf-8", "surrogateescape").split("\0")]
    return tuple((name, value if has_value else None) for name, has_value, value in entries if name)


def make_folder(common: Path, settings: Iterable[tuple[str, str | None]], links: bool = True) -> Path:
    """Make a folder with these settings that git can use instead of `common`, where no agent can write."""
    folder = Path(tempfile.mkdtemp(dir=_folder_of_process()))
    text = "".join(_format(name, value) for name, value in settings if not _LEFT_OUT.fullmatch(name))
    text += "".join(_format(name, value) for name, value in (_ALWAYS if links else _BARE))
    (folder / "config").write_text(text, "utf-8", "surrogateescape")
    for name in _LINKED if links and sys.platform != "win32" else ():
        (folder / name).symlink_to(common / name)
    return folder


def _format(name: str, value: str | None) -> str:
    """Return a setting as a file has it."""
    section, _, rest = name.partition(".")
    middle, _, key = rest.rpartition(".")
    quoted = middle.replace("\\", "\\\\").replace('"', '\\"')
    head = f'[{section} "{quoted}"]' if middle else f"[{section}]"
    if value is None:
        return f"{head}\n\t{key}\n"
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\b": "\\b"}
    return f'{head}\n\t{key} = "{"".join(escapes.get(letter, letter) for letter in value)}"\n'


def _folder_of_process() -> Path:
    """Return where this process keeps its folders; those of processes that are gone are removed."""
    import platformdirs

    top = platformdirs.user_state_path("segue") / "git"
    own = top / quote(identity.me(), safe="")
    if not own.is_dir():
        made = [folder for folder in (own, *own.parents) if not folder.exists()]
        private_folder(own)
        for other in top.iterdir():
            if identity.is_dead(unquote(other.name)):
                shutil.rmtree(other, ignore_errors=True)
        _own_folders[os.getpid()] = made
        atexit.register(forget_folders)
    return own


def forget_folders() -> None:
    """Remove the folders that this process has made, and what it remembers of settings."""
    _pins.clear()
    own, *above = _own_folders.pop(os.getpid(), [Path()])
    if above or own != Path():
        shutil.rmtree(own, ignore_errors=True)
    with contextlib.suppress(OSError):  # another process uses them
        for folder in above:
            folder.rmdir()
