"""Submits runs: what to do, of which repository, with which settings; a worker takes it from there."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from segue.config.tree import leaves
from segue.domain.errors import UsageError, WorkspaceError
from segue.domain.run import Origin, RunKind, RunSpec
from segue.domain.task import TaskStatus
from segue.features.fleet.drive import refuse_delivery, refuse_lanes
from segue.features.fleet.git.addresses import canonical_url, clean_url, remote_commit
from segue.features.fleet.placement import needs_for
from segue.features.fleet.queue import QueueEntry, enqueue, key_of
from segue.runtime.app import App
from segue.sources.recognise import is_prompt
from segue.system import identity
from segue.system.git.repository import Repository

if TYPE_CHECKING:
    import procrastinate

_LARGEST = 1024**2
OF_MACHINES = frozenset(
    (
        *("database_url", "state_dir", "repo", "worker", "notify", "isolation", "sandbox", "log", "store"),
        *("gc", "relay", "bridge", "provider", "allow_dirty", "worktree", "worktree_end"),
    )
)
"""Settings that belong to a machine, and never travel."""


class Submission(Struct, frozen=True):
    """What was asked for; without a commit, what the branch has when the run begins."""

    source: str
    url: str
    commit: str = ""
    branch: str = ""
    source_kind: str = ""
    settings: dict[str, Any] = {}
    tasks: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    priority: int = 0
    submitter: str = ""
    files: dict[str, str] = {}
    agent: str = ""
    kind: RunKind = RunKind.TASKS

    def spec(self) -> RunSpec:
        """Return what is stored of the run until a worker has planned it."""
        origin = Origin(
            self.url, self.commit, self.branch, self.needs, self.priority, self.submitter, self.files
        )
        return RunSpec(
            source_kind=self.source_kind,
            source=self.source,
            repo=self.url,
            agent=self.agent,
            flow="",
            tasks=self.tasks,
            settings=self.settings,
            kind=self.kind,
            origin=origin,
        )


class Wanted(Struct, frozen=True):
    """What the command line says about runs to submit."""

    sources: Sequence[str]
    url: str | None = None
    base: str | None = None
    source_kind: str = ""
    tasks: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    priority: int = 0


async def prepare(app: App, wanted: Wanted, confirm: Callable[[], None] = lambda: None) -> list[Submission]:
    """Find everything that could be wrong before anything is submitted; then, call `confirm`."""
    common = common_parts(app, wanted)
    if wanted.url is not None:
        common = replace(common, url=clean_url(wanted.url), branch=wanted.base or "")
        confirm()
        return [replace(common, **_named(source, None)) for source in wanted.sources]
    repo = await Repository.open(app.repo)
    read = [_of_source(app, repo, common, source) for source in wanted.sources]
    confirm()
    begun = await begin_here(repo, common, wanted.base)
    return [replace(one, url=begun.url, commit=begun.commit, branch=begun.branch) for one in read]


def common_parts(app: App, wanted: Wanted) -> Submission:
    """Return what all runs have in common that are submitted at once; refuse what does not fit a fleet."""
    refuse_lanes(app)
    refuse_delivery(app)
    settings = {key: value for key, value in app.loaded.overrides.items() if key not in OF_MACHINES}
    _refuse_secrets(settings)
    return Submission(
        source="",
        url="",
        source_kind=wanted.source_kind,
        settings=settings,
        tasks=wanted.tasks,
        needs=needs_for(app.loaded.settings, wanted.needs),
        priority=wanted.priority,
        submitter=identity.person(),
        agent=str(app.loaded.settings.agent or app.loaded.settings.roles.execute or ""),
    )


async def submit(
    app: App, queue: procrastinate.App, submissions: Sequence[Submission], at: datetime | None = None
) -> list[str]:
    """Store the runs and enqueue them; return their ids."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    named = {f"{stamp}-{uuid.uuid4().hex[:8]}": await _settled(one) for one in submissions}
    with app.store() as store:
        wanted = {name: (f"fleet/{name}", one.spec()) for name, one in named.items()}
        store.enqueue(wanted, at.timestamp() if at else None)
    # A kill in between does no harm: a worker finds runs that are not in the queue.
    await enqueue(
        queue,
        [QueueEntry(name, key_of(one.needs, one.url), one.priority, at) for name, one in named.items()],
    )
    return list(named)


async def _settled(submission: Submission) -> Submission:
    """Return a submission that names a commit."""
    if submission.commit:
        return submission
    branch, commit = await remote_commit(submission.url, submission.branch)
    return replace(submission, branch=branch, commit=commit)


async def begin_here(repo: Repository, common: Submission, base: str | None) -> Submission:
    """Begin with a commit of the user's clone: workers fetch it from its remote."""
    now = await repo.snapshot()
    if not now.head:
        raise WorkspaceError(
            f"{repo.root} has no commit that a run could begin with.", hint="Make a first commit"
        )
    if now.dirty and base is None:
        names = ", ".join(now.files[:5]) + (" …" if len(now.files) > 5 else "")
        raise WorkspaceError(
            f"Workers would not see your uncommitted changes: {names}",
            kept="Nothing was submitted.",
            hint="Commit and push them, or name what to begin with: --base HEAD",
        )
    commit = (await repo.git("rev-parse", "--verify", f"{base or 'HEAD'}^{{commit}}")).strip()
    url = await repo.remote_url()
    if url is None:
        raise WorkspaceError(
            f"{repo.root} has no remote, so workers could not fetch it.",
            kept="Nothing was submitted.",
            hint="Add one that every machine can reach: git remote add origin ADDRESS",
        )
    if not (await repo.git("branch", "--remotes", "--contains", commit, "--format=%(refname)")).strip():
        raise WorkspaceError(
            f"Commit {commit[:10]} is not on {canonical_url(url)}, so workers could not fetch it.",
            kept="Nothing was submitted.",
            hint=f"git push origin {now.branch or 'HEAD'}   or begin with what is there: --base origin/HEAD",
        )
    return replace(common, url=clean_url(url), commit=commit, branch=now.branch)


def _of_source(app: App, repo: Repository, common: Submission, named: str) -> Submission:
    """Read the source as it is here, so that mistakes are found now; what is done already is left out."""
    source = app.source(named, repo.root, common.source_kind or None)
    listing = source.tasks()
    kind = source.run_kind
    place = Path(source.address)
    found = replace(common, **_named(named, repo.root), source_kind=source.kind, kind=kind)
    pending = [task.key for task in listing.tasks if task.status is TaskStatus.PENDING]
    if listing.tasks and not pending:
        raise UsageError(
            f"No pending tasks in {source.title}.", kept="Nothing was submitted.", hint="See: segue task list"
        )
    if place.is_absolute() and place.is_relative_to(repo.root.resolve()):
        found = replace(found, source=place.relative_to(repo.root.resolve()).as_posix(), files={})
    if not common.tasks and len(pending) < len(listing.tasks):
        found = replace(found, tasks=tuple(pending))
    return found


def _named(source: str, root: Path | None) -> dict[str, Any]:
    """Return how a source is named elsewhere: as it is, or with its text if it is a file outside."""
    path = Path(source)
    if is_prompt(source) or not path.is_file():
        return {"source": source}
    inside = root is not None and path.resolve().is_relative_to(root.resolve())
    if inside:
        return {"source": source}
    if path.stat().st_size > _LARGEST:
        raise UsageError(
            f"{source} is larger than {_LARGEST // 1024} kB.", hint="Commit it to the repository"
        )
    return {"source": path.name, "files": {path.name: path.read_text(encoding="utf-8")}}


def _refuse_secrets(settings: Mapping[str, Any]) -> None:
    """Refuse settings that contain keys: workers have their own."""
    secret = [name for name, _ in leaves(settings) if _is_secret(name)]
    if secret:
        raise UsageError(
            f"Secrets never travel through the queue: {', '.join(secret)}.",
            hint="Workers have their own keys: set them where the worker runs",
        )


def _is_secret(name: str) -> bool:
    words = ("token", "secret", "password", "api_key", "key")
    return ".env." in f".{name}." or any(name.rpartition(".")[2].endswith(word) for word in words)
