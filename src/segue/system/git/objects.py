"""Commits and trees: read where the repository's own configuration, attributes and hooks have no say.

The work tree becomes a tree in a second index beside git's own: that changes nothing, and a commit need not
look again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from segue.domain.errors import WorkspaceError
from segue.domain.workspace import Snapshot
from segue.system.files import brief_folder, private_folder, signature
from segue.system.git.folders import GitPlace, check_objects, read_tree
from segue.system.git.outside import as_variables, read_config, run_git, run_outside
from segue.system.process.capture import Captured, programs_started
from segue.system.reading import UnsafeFile, read_file

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""git's id of the tree without files: the base in a repository without commits."""
GITLINK = "160000"
_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
_SHA256 = "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectformat = sha256\n"
_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
}
_FETCH = (
    *("-c", "fetch.negotiationAlgorithm=noop", "fetch", "--quiet", "--no-tags", "--no-write-fetch-head"),
    *("--recurse-submodules=no", "--filter=blob:none", "--stdin"),
)
"""As git itself fetches what is missing."""
_OTHER_FILTER = re.compile(r"filter\.(?!lfs\.)")


class PathChange(Struct, frozen=True):
    """How one path differs between two trees."""

    path: str
    mode_before: str
    mode_after: str
    blob_before: str
    blob_after: str

    @property
    def added(self) -> bool:
        """Whether it did not exist before."""
        return self.mode_before == "000000"

    @property
    def removed(self) -> bool:
        """Whether it does not exist any more."""
        return self.mode_after == "000000"


class Objects(Struct, frozen=True):
    """The objects of a repository."""

    common_dir: Path
    """The git folder that all work trees of the repository share."""
    place: GitPlace | None = None
    """The work tree whose allowed filters, such as LFS, apply when files are written."""
    aside: Path | None = None
    """A folder for objects that the repository must not have: new ones go there, and both are read."""

    async def filters(self) -> dict[str, str]:
        """Return variables that let git start the filters it may start; LFS's content is filled in later."""
        forced = (await read_config(self.place)).forced if self.place is not None else ()
        return as_variables([one for one in forced if _OTHER_FILTER.match(one[0])])

    async def fetch_missing(self, ids: Iterable[str]) -> None:
        """Fetch what a partial clone has left at its remote, all at once."""
        if self.place is None:
            return
        settings = (await read_config(self.place)).effective
        remote = settings.get("extensions.partialclone") or next(
            (name[7:-9] for name in settings if name.startswith("remote.") and name.endswith(".promisor")), ""
        )
        if not remote or remote.startswith("-"):
            return
        asked = await self.git("cat-file", "--batch-check=%(objectname)", stdin="\n".join(ids).encode())
        lacking = [line.split()[0] for line in asked.out.splitlines() if line.endswith(b" missing")]
        if not lacking:
            return
        done = await run_outside(self.place, *_FETCH, remote, stdin=b"\n".join(lacking))
        if done.exit_code != 0:
            raise WorkspaceError(
                f"{len(lacking)} files of this partial clone could not be fetched from {remote}: {done.said}",
                kept="Nothing was changed.",
                hint="Make the remote reachable, then give the command again",
            )

    async def diff(self, base: str, head: str) -> str:
        """Return the unified diff between two commits or trees."""
        done = await self.git("diff-tree", "-r", "-p", "--no-color", "-M", base or EMPTY_TREE, head)
        return done.out.decode("utf-8", "replace")

    async def diff_index(self, base: str, index: Path, complete: Awaitable[object]) -> str:
        """Return how the content of an index differs from a commit, as `diff` would, once it is complete."""
        arguments = ("diff-index", "--cached", "-p", "--no-color", "-M", base or EMPTY_TREE, "--")
        with self._folder() as folder:
            await complete
            done = await self._run(folder, arguments, variables={"GIT_INDEX_FILE": str(index)})
        return done.out.decode("utf-8", "replace")

    async def changes(self, base: str, head: str) -> tuple[PathChange, ...]:
        """Return the paths that differ between two commits or trees."""
        done = await self.git("diff-tree", "-r", "-z", "--raw", "--no-renames", base or EMPTY_TREE, head)
        fields = done.out.decode("utf-8", "surrogateescape").split("\0")
        return tuple(_read_change(*pair) for pair in zip(fields[::2], fields[1::2], strict=False))

    async def conflicted(self, base: str, head: str) -> tuple[str, ...]:
        """Return the files in which conflict markers were left since the base."""
        lenient = "core.whitespace=-blank-at-eol,-blank-at-eof,-space-before-tab"
        done = await self.git(
            "-c", lenient, "diff-tree", "-r", "--check", base or EMPTY_TREE, head, codes=(0, 2)
        )
        found = [line for line in done.out.decode("utf-8", "replace").splitlines() if _MARKER in line]
        return tuple(dict.fromkeys(line.rsplit(":", 2)[0] for line in found))

    async def has(self, *commits: str) -> bool:
        """Return whether all of these commits are here."""
        for commit in commits:
            done = await self.git("cat-file", "-e", f"{commit}^{{commit}}", codes=(0, 1, 128))
            if done.exit_code != 0:
                return False
        return True

    async def is_ancestor(self, before: str, now: str) -> bool:
        """Return whether one commit contains the history of another."""
        done = await self.git("merge-base", "--is-ancestor", before, now, codes=(0, 1, 128))
        return done.exit_code == 0

    async def tree_of(self, commit: str) -> str:
        """Return the tree of a commit; of a new one, git need not be asked."""
        if found := read_tree(self.common_dir, commit):
            return found
        return (await self.git("rev-parse", "--verify", f"{commit}^{{tree}}")).out.decode().strip()

    async def read(self, tree: str, path: str) -> str | None:
        """Return the text of a file; None if it does not exist there."""
        done = await self.git("cat-file", "blob", f"{tree or EMPTY_TREE}:{path}", codes=(0, 128))
        return done.out.decode("utf-8", "replace") if done.exit_code == 0 else None

    async def git(
        self,
        *arguments: str,
        codes: tuple[int, ...] = (0,),
        stdin: bytes = b"",
        variables: Mapping[str, str] | None = None,
        where: Path | None = None,
        attributes: bytes = b"",
    ) -> Captured:
        """Run a git command that reads objects, in a git folder made for this one call."""
        with self._folder(attributes) as folder:
            return await self._run(folder, arguments, codes, stdin, variables, where)

    async def _run(
        self,
        folder: Path,
        arguments: Sequence[str],
        codes: tuple[int, ...] = (0,),
        stdin: bytes = b"",
        variables: Mapping[str, str] | None = None,
        where: Path | None = None,
    ) -> Captured:
        name = next(word for word in arguments if word != "-c" and "=" not in word)
        own = {"GIT_DIR": str(folder), **self._stores()}
        check_objects(self.common_dir)
        extra = {**_ENVIRONMENT, **own, **(variables or {})}
        try:
            done = await run_git(where or folder, *arguments, stdin=stdin, extra=extra)
        except TimeoutError as error:
            raise WorkspaceError(f"git {name} did not end: {error}.", kept="Nothing was changed.") from None
        if done.exit_code not in codes:
            raise WorkspaceError(f"git {name} failed: {done.said}", kept="Nothing was changed.")
        return done

    def _stores(self) -> dict[str, str]:
        """Return the variables that name where objects are."""
        shared = f"{self.common_dir}/objects"
        if self.aside is None:
            return {"GIT_OBJECT_DIRECTORY": shared}
        private_folder(self.aside)
        return {"GIT_OBJECT_DIRECTORY": str(self.aside), **as_alternates(shared)}

    @contextlib.contextmanager
    def _folder(self, attributes: bytes = b"") -> Iterator[Path]:
        """Make the smallest git folder there is, and remove it again."""
        files = {"HEAD": b"ref: refs/heads/none\n", "config": self.format().encode()}
        shallow = self.common_dir / "shallow"
        if shallow.is_file():
            files["shallow"] = read_file(shallow)
        with brief_folder() as folder:
            (folder / "refs").mkdir()
            if attributes:
                (folder / "info").mkdir()
                (folder / "info" / "attributes").write_bytes(attributes)
            for name, data in files.items():
                (folder / name).write_bytes(data)
            if self.place is not None:
                (folder / "git-crypt").symlink_to(self.common_dir / "git-crypt")  # its key
            yield folder

    def format(self) -> str:
        """Return the configuration of a git folder that can read these objects, and nothing else."""
        try:
            config = read_file(self.common_dir / "config").decode("utf-8", "replace").lower()
        except (OSError, UnsafeFile):
            return _CONFIG
        return _SHA256 if "objectformat=sha256" in config.replace(" ", "") else _CONFIG


def as_alternates(*folders: object) -> dict[str, str]:
    """Return the variable that names further folders with objects, also where a colon is in a path."""
    quoted = (str(one).replace("\\", "\\\\").replace('"', '\\"') for one in folders)
    return {"GIT_ALTERNATE_OBJECT_DIRECTORIES": ":".join(f'"{one}"' for one in quoted)}


_MARKER = ": leftover conflict marker"


def _read_change(facts: str, path: str) -> PathChange:
    before, after, old, new, _ = facts.removeprefix(":").split(" ", 4)
    return PathChange(path, before, after, old, new)


_LARGEST_INDEX = 32 * 1024**2
"""Bytes of an index that is kept for the commit; a larger one is made again."""


class StagedIndex(Struct, frozen=True):
    """An index with everything that was in the work tree at one moment."""

    now: Snapshot
    tree: str
    data: bytes
    """The file; empty if it is too large to be kept."""
    mode: int
    times: tuple[int, int]
    own: object
    """The state of git's own index then."""
    files: tuple[object, ...]
    """The state of the changed files then."""
    programs: int
    """How many programs had been started by then: any of them may change files."""

    def is_current(self, root: Path) -> bool:
        """Return whether nothing can have changed since: no program ran, and the files are the same."""
        return self.programs == programs_started() and self.files == _look(root, self.now)

    def install(self, git_dir: Path, root: Path) -> bool:
        """Make it git's own index; False if anything may have changed since, or another git is at work."""
        index, lock = git_dir / "index", git_dir / "index.lock"
        if not self.data or not self.is_current(root):
            return False
        try:
            handle = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except OSError:
            return False
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(self.data)
            lock.chmod(self.mode)
            # With its time: git looks again at files that were changed in the moment when the index was.
            os.utime(lock, ns=self.times)
            if signature(index) == self.own:
                lock.replace(index)
                return True
        except OSError:
            pass  # git says it better than we could
        lock.unlink(missing_ok=True)
        return False


Git = Callable[..., Awaitable[Captured]]
Add = Callable[[Mapping[str, str]], Awaitable[bool]]
"""Adds everything to the index that the variables name."""
Look = Callable[[Path, Awaitable[object]], Awaitable[str]]
"""Looks at an index, once it is complete."""


async def stage(
    git_dir: Path,
    root: Path,
    now: Snapshot,
    git: Git,
    add: Add,
    look: Look | None = None,
) -> tuple[StagedIndex, str]:
    """Add everything that is in the work tree to a second index; also return what `look` finds there."""
    index = git_dir / "index"
    own, programs, files = signature(index), programs_started(), _look(root, now)
    try:
        with brief_folder(git_dir) as folder:
            staged = folder / "index"
            with contextlib.suppress(FileNotFoundError):
                # With its time, for the same reason.
                shutil.copy2(index, staged)
            tree, found = await _make_tree(staged, git, add, look or _see_nothing)
            made = staged.stat()
            times = (made.st_atime_ns, made.st_mtime_ns)
            data = staged.read_bytes() if made.st_size <= _LARGEST_INDEX else b""
    except OSError as error:
        raise WorkspaceError(f"{index} cannot be copied: {error.strerror}") from error
    return StagedIndex(now, tree, data, made.st_mode & 0o777, times, own, files, programs), found


async def _make_tree(staged: Path, git: Git, add: Add, look: Look) -> tuple[str, str]:
    """Add everything, then make a tree while somebody looks: two processes take as long as one."""
    extra, added = {"GIT_INDEX_FILE": str(staged)}, asyncio.Event()
    looked = asyncio.ensure_future(look(staged, added.wait()))
    try:
        await add(extra)
        added.set()
        await asyncio.sleep(0)  # the look takes longer, so it begins first
        tree = (await git("write-tree", extra=extra)).out.decode().strip()
        return tree, await looked
    finally:
        looked.cancel()
        await asyncio.wait({looked})


async def _see_nothing(_index: Path, complete: Awaitable[object]) -> str:
    await complete
    return ""


def _look(root: Path, now: Snapshot) -> tuple[object, ...]:
    return tuple(signature(root / path) for path in now.files)
