"""Where subagents may work: the address is brought to its one spelling, then looked up in the allow-list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from segue.config.bridge import AllowedRepo
from segue.domain.repository import canonical


@dataclass(frozen=True, slots=True)
class Target:
    """A repository that is allowed: its address for cloud agents, its folder for agents on this machine."""

    repository: str | None
    folder: Path | None

    @property
    def name(self) -> str:
        """How it is called in what is told and stored."""
        return self.repository or str(self.folder)


def target(repo: str, allowed: Sequence[str | AllowedRepo]) -> Target:
    """The target that is meant; ValueError when it is not allowed."""
    if Path(repo).is_absolute() or repo.startswith("~"):
        return _folder(repo, allowed)
    address = canonical(repo)
    fitting = [entry for entry in allowed if _fits(address, _spelled(entry).lower())]
    if not fitting:
        raise ValueError(f"{address} is not on the allow-list (bridge.allow_repos)")
    exact = [_spelled(entry) for entry in fitting if not _spelled(entry).endswith("/*")]
    folders = [entry.folder for entry in fitting if isinstance(entry, AllowedRepo)]
    # Services may tell names apart by their case: the user's spelling is the right one.
    return Target(exact[0] if exact else address, folders[0] if folders else None)


def _folder(repo: str, allowed: Sequence[str | AllowedRepo]) -> Target:
    """A folder is allowed as it is, not what lies below it; links are followed before it is compared."""
    if "\0" in repo:
        raise ValueError("no path holds a null character")
    try:
        wanted = Path(repo).expanduser().resolve()
    except RuntimeError:
        raise ValueError(f"there is no home folder behind {repo.partition('/')[0]}") from None
    for entry in allowed:
        place = entry.folder if isinstance(entry, AllowedRepo) else Path(entry)
        if place.is_absolute() and place.resolve() == wanted:
            hosted = entry.repo if isinstance(entry, AllowedRepo) and not entry.repo.endswith("/*") else None
            return Target(hosted, wanted)
    raise ValueError(f"{wanted} is not on the allow-list (bridge.allow_repos)")


def _spelled(entry: str | AllowedRepo) -> str:
    return entry.repo if isinstance(entry, AllowedRepo) else entry


def _fits(address: str, pattern: str) -> bool:
    """Hosts do not tell owners and names apart by their case; a `*` stands for one name."""
    if pattern.endswith("/*"):
        owner, _, name = address.lower().rpartition("/")
        return owner == pattern[:-2] and bool(name)
    return address.lower() == pattern
