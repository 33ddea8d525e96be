"""Takes the work of a run along: into the database after each step that may have changed it, and home."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from segue.domain.errors import Locked, WorkspaceError
from segue.domain.run import Run, RunSpec, Step
from segue.fleet.bundles import Whereabouts, find_work, save_work, settle_at
from segue.flow.phase import PHASES
from segue.store.database import Statement
from segue.store.postgres import Postgres
from segue.system.git.portable import deliver, pack
from segue.system.git.repository import Repository
from segue.system.git.worktree import branch_of

_QUIET = frozenset(name for name, phase in PHASES.items() if not phase.edits) | {"sleep", "end", "base"}
"""Steps that never change the work."""
_SHORT = 5.0
"""Seconds for which a connection is kept that the next run may use."""


class WorkCarrier:
    """Carries the work of one run."""

    def __init__(
        self,
        run: Run,
        repo: Repository,
        known: Whereabouts,
        place: str,
        database: Postgres,
        slots: Mapping[str, int],
    ) -> None:
        """`known` is what was brought here; `place` names this machine."""
        assert run.spec.origin is not None
        self._run, self._repo, self._known = run, repo, known
        self._origin, self._place, self._database = run.spec.origin, place, database
        self._before = known.digest
        self.slots = slots
        self.moved = known.place not in ("", place)

    def confirm(self) -> Statement:
        """Make sure that nobody has driven the run since its work was brought here; raises Locked.

        Returns what writes down that this machine drives it from now on.
        """
        if find_work(self._database, self._run.id) != self._known:
            raise Locked(f"Another worker has just driven run {self._run.id}.", kept="Nothing was changed.")
        return settle_at(self._run.id, self._place)

    def disconnect(self) -> None:
        """Close the connection to the database soon: agents may work for hours, and connections are few."""
        asyncio.get_running_loop().call_later(_SHORT, self._database.close)

    def stored(self, spec: RunSpec) -> RunSpec:
        """Return what other machines read: nothing in it is a path of this one."""
        return replace(
            spec,
            source=self._run.spec.source,
            repo=self._run.spec.repo,
            config=None,
            worktree=None,
            settings=self._run.spec.settings,
        )

    async def pack(self, step: Step) -> Statement | None:
        """Return what stores the work as a step has left it; None: it has not changed."""
        if step.phase in _QUIET:
            return None
        packed = await pack(self._repo, self._origin.commit, self._before)
        if packed is None:
            return None
        self._before = packed.digest
        return save_work(self._run.id, packed)

    async def deliver(self) -> str:
        """Push the branch of the run, where there is a remote; else it is fetched from the database."""
        fetch = f"Bring it into your clone with: segue fetch {self._run.id}"
        if self._origin.is_local:
            return f"The work is in the database. {fetch}"
        try:
            return await deliver(self._repo, branch_of(self._run.id))
        except WorkspaceError as error:
            return f"The work could not be pushed: {error.message} It is in the database. {fetch}"


def source_here(run: Run, repo: Path, folder: Path) -> str | None:
    """Return the source of a run as it is named on this machine; files that came along are written."""
    spec = run.spec
    assert spec.origin is not None
    if spec.origin.files:
        for name, text in spec.origin.files.items():
            place = folder / "source" / Path(name).name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
        return str(folder / "source" / Path(spec.source).name)
    inside = repo / spec.source if spec.source and "\n" not in spec.source else repo
    try:
        is_path = bool(spec.source) and inside.exists()
    except OSError:  # a sentence that is too long for a path
        is_path = False
    return str(inside) if is_path else spec.source or None
