"""The one door to git outside of the sandbox: nothing that an agent can write decides what git starts.

Git reads its configuration from the folder that `GIT_COMMON_DIR` names. Segue makes such a folder for each
work tree: its configuration is `own_config.py`'s, it has no hooks, and everything else in it is a link to the
repository. HEAD, the index and their locks are where they always are.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from segue.domain.errors import AGAIN, ToolMissing, WorkspaceError
from segue.system.files import brief_folder, brief_place, clear_temporary, signature
from segue.system.git.config import GitSetting, OwnConfig, Trust, compose, parse_settings
from segue.system.git.folders import GitPlace, check_place, check_refs, check_tree, find_place, work_trees
from segue.system.git.index import check_heavy
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
_PLACES = ("--show-toplevel", "--absolute-git-dir")
_LIST = ("config", "--list", "-z", "--show-scope", "--show-origin")
_LIST_TIMEOUT = 30.0
_LINKED = (
    *("HEAD", "annex", "gc.pid", "git-crypt", "index", "info", "logs", "objects"),
    *("packed-refs", "refs", "reftable", "shallow", "worktrees"),
)
"""What git reads and writes in the repository itself."""
_LOGGED = frozenset(
    (
        *("branch", "checkout", "cherry-pick", "commit", "fetch", "merge", "push", "rebase", "reset"),
        *("stash", "switch", "symbolic-ref", "update-ref", "worktree"),
    )
)
"""Commands that note in the repository's logs where a branch was before."""
_ENVIRONMENT = {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "GIT_EDITOR": ":", "GIT_PAGER": "cat"}
_PASSED = frozenset(
    (
        *("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSH_VARIANT"),
        *("GIT_ASKPASS", "GIT_PROXY_COMMAND", "GIT_EXEC_PATH", "GIT_DISCOVERY_ACROSS_FILESYSTEM"),
        *("GIT_CEILING_DIRECTORIES", "GIT_ALLOW_PROTOCOL", "GIT_PROTOCOL", "GIT_LFS_SKIP_SMUDGE"),
    )
)
_FAMILIES = ("GIT_SSL_", "GIT_HTTP_", "GIT_TRACE", "GPG_", "GNUPG", "SSH_")
_INCLUDES = re.compile(r"include\.path|includeif\..*\.path", re.DOTALL)
_GIVEN = ("GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_", "GIT_CONFIG_PARAMETERS")
"""The user's settings in the environment: they are read, but not passed on as they are."""


class _Made(Struct):
    """A git folder that was made for a work tree."""

    folder: Path | None
    """None on a system without links."""
    stamp: object
    config: OwnConfig
    files: tuple[str, ...]


_made: dict[GitPlace, _Made] = {}
_kept: dict[int, contextlib.ExitStack] = {}
"""What each process has made: one that was forked must not remove what its parent uses."""
_NOT_IN_MEMORY = Path()
_LONG = 10.0
"""Seconds after which Segue looks what git may be waiting for."""
_READING = frozenset(("add", "commit", "stash", "status"))
"""Commands that read changed files to their end."""
_USED = 600.0
"""Seconds after which a folder is marked as used again."""
_trust = [Trust()]


def trust_programs(trust: Trust) -> None:
    """Allow programs that a person's settings name, from now on."""
    _trust[0] = trust


async def run_git(
    where: Path,
    *args: str,
    stdin: bytes = b"",
    extra: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT,
    limit: int = 64 * 1024**2,
) -> Captured:
    """Run git where no repository's configuration has a say, or where it starts nothing, such as `init`.

    It asks nothing at the terminal; at most `limit` bytes of output are kept.
    """
    return await _capture(where, args, {**_given(), **(extra or {})}, timeout, stdin, limit)


async def _capture(
    where: Path, args: Sequence[str], extra: Mapping[str, str], timeout: float, stdin: bytes, limit: int
) -> Captured:
    environment = child_environment(passed=_variables(), extra={**_ENVIRONMENT, **extra})
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
    if (found := find_place(path)) is not None:
        check_place(found)
    try:
        # It only tells where the repository is, and whether its owner is trusted: it starts nothing.
        done = await run_git(path, "rev-parse", *_PLACES, timeout=timeout)
    except TimeoutError as error:
        hint = "Look whether a file that its configuration includes is a pipe or a device."
        raise WorkspaceError(f"git did not answer in {path}: {error}.", hint=hint) from None
    lines = [os.fsdecode(line) for line in done.out.removesuffix(b"\n").split(b"\n")]
    if done.exit_code == 0 and len(lines) > 2:  # there is a line end in the path
        asked = [await run_git(path, "rev-parse", what) for what in _PLACES]
        lines = [os.fsdecode(one.out.removesuffix(b"\n")) for one in asked]
    if done.exit_code != 0 or len(lines) != 2:
        why = done.err.decode("utf-8", "replace").strip().splitlines()
        detail = why[0] if why and "not a git repository" not in why[0] else ""
        other = f"Create one with: git init {path}   or name another with --repo"
        raise WorkspaceError(
            f"{NOT_A_REPOSITORY}: {path}" + (f" ({detail})" if detail else ""),
            hint=next(
                (f"If you trust it: {line.strip()}" for line in why if "safe.directory" in line), other
            ),
        )
    return Path(lines[0]), Path(lines[1])


async def run_outside(
    place: GitPlace,
    *args: str,
    stdin: bytes = b"",
    extra: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT,
    limit: int = 64 * 1024**2,
) -> Captured:
    """Run git in a work tree, with a git folder and a configuration that only Segue writes."""
    check_refs(place.common, args)
    variables = {**await _variables_for(place), **(extra or {})}
    if not _LOGGED.isdisjoint(args):
        (place.common / "logs").mkdir(exist_ok=True)  # through a link, git could not make it
    running = asyncio.ensure_future(_capture(place.root, args, variables, timeout, stdin, limit))
    try:
        if not (await asyncio.wait({running}, timeout=_LONG))[0]:
            await asyncio.to_thread(check_tree, place.root)
            if not _READING.isdisjoint(args):
                await asyncio.to_thread(check_heavy, place)
        return await running
    finally:
        running.cancel()
        await asyncio.wait({running})


def ask_git(place: GitPlace, *args: str) -> bytes:
    """Ask git a short question from synchronous code; empty if it does not answer."""
    from concurrent.futures import ThreadPoolExecutor

    # In a thread with a loop of its own, because the caller's thread may already run one.
    with ThreadPoolExecutor(1) as thread:
        try:
            return thread.submit(asyncio.run, run_outside(place, *args, timeout=60.0)).result().out
        except (OSError, WorkspaceError):
            return b""


async def read_config(place: GitPlace) -> OwnConfig:
    """Return the configuration with which git runs in a work tree."""
    return (await _open(place)).config


async def name_refused(place: GitPlace) -> tuple[str, ...]:
    """Say which filters git does not start here although files need them, and what to set."""
    config = await read_config(place)
    listing = ("ls-files", "--cached", "--others", "--exclude-standard", "-z")
    said = []
    for driver in config.drivers:
        start = f"The filter {driver} was not started"
        why = next((words for words in config.refused if words.startswith(start)), "")
        if why and (await run_outside(place, *listing, f":(top,attr:filter={driver})")).out:
            said.append(why)
    return tuple(said)


def included_files(place: GitPlace) -> tuple[str, ...]:
    """Return the files of the work tree that git reads settings from, by the user's own word.

    What settings name in another work tree comes there with a merge, so that here it counts too.
    """
    made, found = _made.get(place), []
    tops = (place.root, *work_trees(place.common))
    for file in map(os.path.normpath, made.files if made is not None else ()):
        for top in tops:
            below = os.path.relpath(file, top)
            if not below.startswith(("..", f".git{os.sep}")):
                found.append(os.path.join(place.root, below))  # noqa: PTH118
                break
    return tuple(found)


async def _variables_for(place: GitPlace) -> dict[str, str]:
    check_place(place)
    made = await _open(place)
    found = {"GIT_DIR": str(place.git_dir), "GIT_WORK_TREE": str(place.root)}
    if made.folder is None:  # on a system without links, and so without a sandbox
        return found | as_variables(made.config.forced)
    found["GIT_COMMON_DIR"] = str(made.folder)
    if not made.config.leaves_global:
        found |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    return found


def as_variables(settings: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return settings as git takes them from the environment."""
    found = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (name, value) in enumerate(settings):
        found |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return found


async def _open(place: GitPlace) -> _Made:
    """Return the folder for a work tree, with the settings as they are now."""
    made = _made.get(place)
    if made is not None and _is_there(made.folder) and made.stamp == _stamp(made.files):
        return made
    settings = parse_settings(await _list_settings(place))
    read = [*_config_files(place), *(one.file for one in settings if one.file)]
    files = tuple(dict.fromkeys((*read, *_named_files(settings))))
    files = tuple(os.path.join(place.root, file) for file in files)  # noqa: PTH118 - read again and again
    stamp, config = _stamp(files), compose(place, settings, _trust[0])
    folder = made.folder if made and _is_there(made.folder) else _make_folder(place)
    if folder is not None:
        try:
            (folder / "config.new").write_text(config.text, "utf-8", "surrogateescape")
            (folder / "config.new").replace(folder / "config")
        except OSError as error:
            raise WorkspaceError(
                f"Cannot write {folder / 'config'}: {error.strerror}.",
                kept="Nothing was changed.",
                hint=f"Free some space there, then {AGAIN}",
            ) from error
    _made[place] = made = _Made(folder, stamp, config, files)
    return made


def _is_there(folder: Path | None) -> bool:
    """Return whether a folder can be used; what nobody has used for long is deleted."""
    if folder is None:
        return True
    try:
        age = time.time() - folder.stat().st_mtime
        if age > _USED:
            os.utime(folder)
    except OSError:
        return False
    return folder.parent == _where()


async def _list_settings(place: GitPlace) -> bytes:
    """Let git read its configuration, which starts nothing."""
    check_place(place)
    extra = {"GIT_DIR": str(place.git_dir), "GIT_COMMON_DIR": str(place.common)}
    try:
        done = await run_git(place.root, *_LIST, extra=extra, timeout=_LIST_TIMEOUT)
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
    return done.out


def _stamp(files: tuple[str, ...]) -> object:
    """Return what differs whenever a file with settings was written, or another program is trusted."""
    given = tuple(sorted(_given().items())) if _GIVEN[0] in os.environ or _GIVEN[-1] in os.environ else ()
    return tuple(map(signature, files)), given, _trust[0], os.environ.get("PATH")


def _given() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith(_GIVEN)}


def _named_files(settings: Sequence[GitSetting]) -> Iterator[str]:
    """Yield what settings include, also where nothing is yet: of a file without settings git says nothing."""
    for one in settings:
        if one.value and _INCLUDES.fullmatch(one.name):
            name = os.path.expanduser(one.value)  # noqa: PTH111 - it may be no path
            yield os.path.join(os.path.dirname(one.file), name)  # noqa: PTH118, PTH120


def _config_files(place: GitPlace) -> list[str]:
    home = os.environ.get("HOME", "")
    settings = os.environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    named = os.environ.get("GIT_CONFIG_GLOBAL")
    users = [named] if named else [f"{home}/.gitconfig", f"{settings}/git/config"]
    return [str(place.common / "config"), str(place.git_dir / "config.worktree"), *users]


def _where() -> Path:
    """Return where these folders are made: in memory, or where no agent may write if they can reach that."""
    found = brief_place(_NOT_IN_MEMORY)
    return _state() if found is _NOT_IN_MEMORY else found


def _state() -> Path:
    import platformdirs

    return platformdirs.user_state_path("segue") / "git"


def _make_folder(place: GitPlace) -> Path | None:
    if sys.platform == "win32":
        return None
    where = _where()
    if os.getpid() not in _kept:
        _kept[os.getpid()] = contextlib.ExitStack()
        atexit.register(forget_folders)
    if where == _state():
        where.mkdir(parents=True, mode=0o700, exist_ok=True)
        clear_temporary(where)
    folder = _kept[os.getpid()].enter_context(brief_folder(where))
    for name in _LINKED:
        (folder / name).symlink_to(place.common / name)
    return folder


def forget_folders() -> None:
    """Remove the folders that this process has made."""
    if (own := _kept.pop(os.getpid(), None)) is not None:
        own.close()


def _variables() -> list[str]:
    """Return the user's variables that git needs, without those that name a repository or a program."""
    return [name for name in os.environ if name in _PASSED or name.startswith(_FAMILIES)]
