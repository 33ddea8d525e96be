"""The work of runs that move between machines.

In the database is what each run has made so far: a `WorkCarrier` stores it after each step that may have
changed it, and pushes the branch at the end.
"""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.errors import Locked
from segue.domain.run import Run, RunSpec, Step
from segue.features.fleet.git.portable import Packed, deliver, pack
from segue.flow.phase import PHASES
from segue.store.database import Database, Statement, ask
from segue.store.postgres import Postgres
from segue.system.git.repository import Repository
from segue.system.git.worktree import branch_of

_SAVE = (
    "INSERT INTO segue_fleet.bundles (name, data, head, digest, updated)"
    " VALUES (?, decode(?, 'base64'), ?, ?, {now}) ON CONFLICT (name) DO UPDATE SET"
    " data = excluded.data, head = excluded.head, digest = excluded.digest, updated = excluded.updated"
)


def save_work(run: str, packed: Packed) -> Statement:
    """Return what stores the work of a run; values are text, so that a buffer can keep them."""
    return _SAVE, (f"work/{run}", _text(packed.data), packed.head, packed.digest)


class Whereabouts(Struct, frozen=True):
    """Where the work of a run is."""

    place: str = ""
    """The machine that has driven it last; empty: none."""
    digest: str = ""
    """Identifies what is in the database; empty: nothing."""


def find_work(database: Database, run: str) -> Whereabouts:
    """Return where the work of a run is."""
    rows = ask(
        database,
        "SELECT (SELECT place FROM segue_fleet.places WHERE run_id = ?),"
        " (SELECT digest FROM segue_fleet.bundles WHERE name = ?)",
        run,
        f"work/{run}",
    )
    return Whereabouts(rows[0][0] or "", rows[0][1] or "")


def record_place(run: str, place: str) -> Statement:
    """Return what writes down which machine drives a run."""
    sql = (
        "INSERT INTO segue_fleet.places VALUES (?, ?, {now}) ON CONFLICT (run_id)"
        " DO UPDATE SET place = excluded.place, since = excluded.since, held = 0"
    )
    return sql, (run, place)


def load_work(database: Database, run: str) -> Packed | None:
    """Return what a run has made so far; None if it has not changed anything."""
    rows = ask(
        database,
        "SELECT data, head, digest FROM segue_fleet.bundles WHERE name = ?",
        f"work/{run}",
    )
    return Packed(bytes(rows[0][0]), rows[0][1], rows[0][2]) if rows else None


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


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
    ) -> None:
        """`known` is what was brought here; `place` names this machine."""
        assert run.spec.origin is not None
        self._run, self._repo, self._known = run, repo, known
        self._origin, self._place, self._database = run.spec.origin, place, database
        self._before = known.digest
        self.moved = known.place not in ("", place)

    def confirm(self) -> Statement:
        """Make sure that nobody has driven the run since its work was brought here; raises Locked.

        Returns what writes down that this machine drives it from now on.
        """
        if find_work(self._database, self._run.id) != self._known:
            raise Locked(f"Another worker has just driven run {self._run.id}.", kept="Nothing was changed.")
        return record_place(self._run.id, self._place)

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
        """Push the branch of the run; raises WorkspaceError where the remote refuses it."""
        return await deliver(self._repo, branch_of(self._run.id))


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
