"""The hooks of a repository, for one run: kept before an agent works, and run before each commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from segue.domain.source import HookRun
from segue.proof.commit_hooks import KeptHooks, keep_hooks, kept_hooks
from segue.system.git.folders import common_dir
from segue.system.git.repository import Repository

if TYPE_CHECKING:
    from segue.proof.seal import Sealer


class CommitHooks:
    """The hooks of one work tree."""

    def __init__(
        self, repo: Repository, folder: Path, sealer: Callable[[], Sealer], notes: Path | None = None
    ) -> None:
        """Keep them in a folder, which lanes share; `notes` is where guards note launches under way."""
        self._repo, self._folder, self._sealer, self._notes = repo, folder, sealer, notes
        self._found: KeptHooks | None = None

    @property
    def is_empty(self) -> bool:
        """True if there are none."""
        self._found = self._found or kept_hooks(self._folder)
        return self._found is None or self._found.is_empty

    async def keep(self) -> bool:
        """Keep them as they are now and return whether there are any.

        Those of the last session stay where its agent may have changed them: it was killed before the guard
        could look. Otherwise the user may have repaired one.
        """
        is_open = self._notes is not None and any(self._notes.rglob("before.json"))
        self._found = kept_hooks(self._folder) if is_open else None
        if self._found is None:
            repo = self._repo
            configured = await repo.setting("core.hookspath")
            self._found = keep_hooks(repo.root, common_dir(repo.git_dir), configured, self._folder)
        return not self._found.is_empty

    async def __call__(self, base: str, tree: str, messages: Sequence[str]) -> HookRun | None:
        """Return what they say about a tree that is to be committed; None: there are none."""
        from segue.proof.commit_hooks import Commit  # runs without hooks start sooner

        if self.is_empty or self._found is None:
            return None
        named = await self._repo.settings(r"^user\.(name|email)$")
        author = (named.get("user.name", ""), named.get("user.email", ""))
        return await self._sealer().try_hooks(self._found, Commit(base, tree, tuple(messages), author))
