"""Decides where subagents may work: the address is normalised, then looked up in the allow-list."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from segue.agents.cloud.repository import canonical_address
from segue.parts.bridge.options import AllowedRepo


class RepoTarget(Struct, frozen=True):
    """An allowed repository: its address for cloud agents, its folder for agents on this machine."""

    repository: str | None
    folder: Path | None

    @property
    def name(self) -> str:
        """Its name in messages and in the store."""
        return self.repository or str(self.folder)


def find_target(repo: str, allowed: Sequence[str | AllowedRepo]) -> RepoTarget:
    """Return the repository that `repo` names; raise ValueError if it is not allowed."""
    if Path(repo).is_absolute() or repo.startswith("~"):
        return _find_folder(repo, allowed)
    address = canonical_address(repo)
    matches = [entry for entry in allowed if _matches(address, _pattern(entry).lower())]
    if not matches:
        raise ValueError(f"{address} is not on the allow-list (bridge.allow_repos)")
    exact = [_pattern(entry) for entry in matches if not _pattern(entry).endswith("/*")]
    folders = [entry.folder for entry in matches if isinstance(entry, AllowedRepo)]
    # Some services are case-sensitive: use the user's spelling.
    return RepoTarget(exact[0] if exact else address, folders[0] if folders else None)


def _find_folder(repo: str, allowed: Sequence[str | AllowedRepo]) -> RepoTarget:
    """Find a folder, links resolved; what is below an allowed folder is not allowed."""
    if "\0" in repo:
        raise ValueError("a path cannot contain a null character")
    try:
        wanted = Path(repo).expanduser().resolve()
    except RuntimeError:
        raise ValueError(f"there is no home folder for {repo.partition('/')[0]}") from None
    for entry in allowed:
        folder = entry.folder if isinstance(entry, AllowedRepo) else Path(entry)
        if folder.is_absolute() and folder.resolve() == wanted:
            hosted = entry.repo if isinstance(entry, AllowedRepo) and not entry.repo.endswith("/*") else None
            return RepoTarget(hosted, wanted)
    raise ValueError(f"{wanted} is not on the allow-list (bridge.allow_repos)")


def _pattern(entry: str | AllowedRepo) -> str:
    return entry.repo if isinstance(entry, AllowedRepo) else entry


def _matches(address: str, pattern: str) -> bool:
    """Compare without case, as hosts do; a `*` stands for one name."""
    if pattern.endswith("/*"):
        owner, _, name = address.lower().rpartition("/")
        return owner == pattern[:-2] and bool(name)
    return address.lower() == pattern
