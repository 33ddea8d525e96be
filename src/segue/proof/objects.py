"""Read git's objects and write trees from them, without the repository's hooks, filters and settings."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from segue.domain.errors import WorkspaceError
from segue.system.files import private_folder
from segue.system.process.capture import Captured, capture, child_environment

_TIMEOUT = 300.0
_GITLINK = "160000"
_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
}


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One file of a tree."""

    mode: str
    id: str

    @property
    def is_link(self) -> bool:
        """Whether it is a symbolic link."""
        return self.mode == "120000"


class SealedObjects:
    """The objects of a repository, seen through a git folder of our own."""

    def __init__(self, git_dir: Path, scratch: Path) -> None:
        """Borrow the objects of `git_dir`; our own git folder is in the scratch folder."""
        self._source = _common_dir(git_dir) / "objects"
        self._git_dir = scratch / "git"
        self._scratch = scratch
        self._trees: dict[str, dict[str, TreeEntry]] = {}
        self._ready = asyncio.Lock()

    async def entries(self, tree: str) -> dict[str, TreeEntry]:
        """Return the files of a commit or tree, without gitlinks; empty: none."""
        if not tree:
            return {}
        if tree not in self._trees:
            done = await self._git("ls-tree", "-r", "-z", "--full-tree", tree)
            self._trees[tree] = _parse(done.out)
        return dict(self._trees[tree])

    async def read(self, entry: TreeEntry) -> bytes:
        """Return the content of a file."""
        return (await self._git("cat-file", "blob", entry.id)).out

    async def write(self, entries: Mapping[str, TreeEntry], folder: Path) -> None:
        """Write the files to a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        index = folder.parent / f"{folder.name}.index"
        variables = {"GIT_INDEX_FILE": str(index), "GIT_WORK_TREE": str(folder)}
        lines = b"".join(
            f"{entry.mode} {entry.id} 0\t".encode() + path.encode("utf-8", "surrogateescape") + b"\0"
            for path, entry in entries.items()
        )
        try:
            await self._git("update-index", "-z", "--index-info", stdin=lines, env=variables)
            await self._git("checkout-index", "--all", "--force", "--quiet", env=variables, cwd=folder)
        finally:
            index.unlink(missing_ok=True)

    async def _git(
        self, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> Captured:
        await self._prepare()
        done = await self._run(*args, stdin=stdin, env=env, cwd=cwd)
        if done.exit_code != 0:
            said = done.err.decode("utf-8", "replace").strip()[-1000:]
            raise WorkspaceError(
                f"git {args[0]} failed while a check was prepared: {said}",
                kept="The work tree is unchanged.",
                hint="Check the repository with: git fsck",
            )
        return done

    async def _run(
        self, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> Captured:
        variables = child_environment(
            extra={**_ENVIRONMENT, "GIT_DIR": str(self._git_dir), **(env or {})},
        )
        return await capture(["git", *args], cwd or self._scratch, variables, _TIMEOUT, stdin)

    async def _prepare(self) -> None:
        async with self._ready:
            if (self._git_dir / "objects/info/alternates").exists():
                return
            private_folder(self._scratch)
            shutil.rmtree(self._git_dir, ignore_errors=True)
            await self._run("init", "--bare", "--quiet", "--template=", str(self._git_dir))
            info = self._git_dir / "objects/info"
            info.mkdir(parents=True, exist_ok=True)
            (info / "alternates").write_text(f"{self._source}\n")


def _common_dir(git_dir: Path) -> Path:
    """Return the git folder that a work tree shares with the others."""
    pointer = git_dir / "commondir"
    return (git_dir / pointer.read_text().strip()).resolve() if pointer.exists() else git_dir.resolve()


def _parse(raw: bytes) -> dict[str, TreeEntry]:
    found = {}
    for line in raw.split(b"\0"):
        facts, _, path = line.partition(b"\t")
        if path:
            mode, _, ident = facts.decode().split(" ")
            if mode != _GITLINK:
                found[path.decode("utf-8", "surrogateescape")] = TreeEntry(mode, ident)
    return found
