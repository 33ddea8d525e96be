"""Commits and trees, read where the repository's own configuration, attributes and hooks have no say."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from msgspec import Struct

from segue.domain.errors import WorkspaceError
from segue.system.files import private_folder, read_start
from segue.system.git.folders import GitPlace
from segue.system.git.outside import as_variables, make_folder, pinned_settings, run_git
from segue.system.process.capture import Captured

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""git's id of the tree without files: the base in a repository without commits."""
GITLINK = "160000"
_READING = re.compile(
    r"core\.(repositoryformatversion|sshcommand)|extensions\.(objectformat|partialclone)"
    r"|remote\..*|credential\..*|http\..*|url\..*",
    re.DOTALL,
)
"""What git needs to read objects, also those that a partial clone has left at its remote."""
_OTHER_FILTER = re.compile(r"filter\.(?!lfs\.)")
_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
_SHA256 = "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectformat = sha256\n"
_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
}
_folders: dict[tuple[int, Path], Path] = {}


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
    """The work tree whose filters apply when files are written."""
    aside: Path | None = None
    """A folder for objects that the repository must not have: new ones go there, and both are read."""

    async def filters(self) -> dict[str, str]:
        """Return variables that let git start the pinned filters; LFS's content is filled in later."""
        settings = await pinned_settings(self.place) if self.place is not None else ()
        return as_variables(one for one in settings if _OTHER_FILTER.match(one[0]))

    async def diff(self, base: str, head: str) -> str:
        """Return the unified diff between two commits or trees."""
        plain = ("--no-color", "--no-ext-diff", "--no-textconv")
        done = await self.git("diff-tree", "-r", "-p", "-M", *plain, base or EMPTY_TREE, head)
        return done.out.decode("utf-8", "replace")

    async def changes(self, base: str, head: str) -> tuple[PathChange, ...]:
        """Return the paths that differ between two commits or trees."""
        done = await self.git("diff-tree", "-r", "-z", "--raw", "--no-renames", base or EMPTY_TREE, head)
        fields = done.out.decode("utf-8", "surrogateescape").split("\0")
        return tuple(_read_change(*pair) for pair in zip(fields[::2], fields[1::2], strict=False))

    async def conflicted(self, base: str, head: str) -> tuple[str, ...]:
        """Return the files in which conflict markers were left since the base."""
        lenient = "core.whitespace=-blank-at-eol,-blank-at-eof,-space-before-tab"
        options = ("-c", lenient, "diff-tree", "-r", "--check")
        done = await self.git(*options, base or EMPTY_TREE, head, codes=(0, 2))
        lines = done.out.decode("utf-8", "replace").splitlines()
        marked = [line for line in lines if ": leftover conflict marker" in line]
        return tuple(dict.fromkeys(line.rsplit(":", 2)[0] for line in marked))

    async def has(self, *commits: str) -> bool:
        """Return whether all of these commits are here."""
        asked = "".join(f"{commit}^{{commit}}\n" for commit in commits).encode()
        return b" missing" not in (await self.git("cat-file", "--batch-check", stdin=asked)).out

    async def is_ancestor(self, before: str, now: str) -> bool:
        """Return whether one commit contains the history of another."""
        if before == now:
            return True
        done = await self.git("merge-base", "--is-ancestor", before, now, codes=(0, 1, 128))
        return done.exit_code == 0

    async def tree_of(self, commit: str) -> str:
        """Return the tree of a commit."""
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
        """Run a git command that reads objects, in a git folder of Segue's."""
        name = next(word for word in arguments if word != "-c" and "=" not in word)
        async with self._folder(attributes) as folder:
            extra = {**_ENVIRONMENT, "GIT_DIR": str(folder), **self._stores(), **(variables or {})}
            try:
                done = await run_git(where or folder, *arguments, stdin=stdin, extra=extra)
            except TimeoutError as error:
                text = f"git {name} did not end: {error}."
                raise WorkspaceError(text, kept="Nothing was changed.") from None
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

    @contextlib.asynccontextmanager
    async def _folder(self, attributes: bytes) -> AsyncIterator[Path]:
        """Yield the smallest git folder there is; one with `attributes` that precede all others is brief."""
        key = os.getpid(), self.common_dir
        kept = _folders.get(key)
        if not attributes and kept is not None and kept.is_dir():
            yield kept
            return
        folder = await self._make_folder()
        if not attributes:
            yield _folders.setdefault(key, folder)
            return
        (folder / "info").mkdir()
        (folder / "info" / "attributes").write_bytes(attributes)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    async def _make_folder(self) -> Path:
        place = self.place or GitPlace(self.common_dir, self.common_dir, self.common_dir)
        settings = [one for one in await pinned_settings(place) if _READING.fullmatch(one[0])]
        folder = make_folder(self.common_dir, settings, links=False)
        (folder / "HEAD").write_bytes(b"ref: refs/heads/none\n")
        (folder / "refs").mkdir()
        for name in ("shallow", "git-crypt"):  # the latter has a filter's key
            (folder / name).symlink_to(self.common_dir / name)
        return folder

    def format(self) -> str:
        """Return the configuration of a git folder that can read these objects, and nothing else."""
        config = read_start(self.common_dir / "config").decode("utf-8", "replace").lower()
        return _SHA256 if "objectformat=sha256" in config.replace(" ", "") else _CONFIG


def as_alternates(*folders: object) -> dict[str, str]:
    """Return the variable that names further folders with objects, also where a colon is in a path."""
    quoted = (str(one).replace("\\", "\\\\").replace('"', '\\"') for one in folders)
    return {"GIT_ALTERNATE_OBJECT_DIRECTORIES": ":".join(f'"{one}"' for one in quoted)}


def _read_change(facts: str, path: str) -> PathChange:
    before, after, old, new, _ = facts.removeprefix(":").split(" ", 4)
    return PathChange(path, before, after, old, new)
