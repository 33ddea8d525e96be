"""The lanes of a run: prepares them for tasks, brings their work together, and tidies up."""

from __future__ import annotations

import asyncio
import hashlib
import shlex
import shutil
from collections.abc import Sequence
from fnmatch import fnmatch
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from segue.config.settings import Settings
from segue.domain.errors import AGAIN, NeedsHuman, SegueError
from segue.domain.events import NoticeGiven
from segue.domain.task import TaskKind
from segue.flow.context import Checking, Lane, Lanes, RunContext
from segue.flow.lanes import Seat, Seats
from segue.flow.parallel import run_side_by_side
from segue.proof.guard import LaunchGuard
from segue.runtime.delivery import is_merged
from segue.runtime.guard import make_guard
from segue.runtime.open import OpenRun, make_remote
from segue.runtime.wiring import make_checking
from segue.system.beneath import Beneath, read_below
from segue.system.files import private_folder, write_atomic
from segue.system.git.branches import REMOTE, RemoteLane, forget_lanes
from segue.system.git.integration import Integration, catch_up
from segue.system.git.lanes import LaneTree, LaneTrees
from segue.system.git.repository import Repository
from segue.system.git.worktree import branch_of
from segue.system.isolation.isolate import MOUNTING, Isolation, capture_inside
from segue.system.lane import has_content, list_ignored, list_shared, match
from segue.system.process.capture import inside_environment
from segue.system.redact import Redactor

_LOCK_FILES = (
    *("package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock", "bun.lockb"),
    *(
        "deno.lock",
        "uv.lock",
        "poetry.lock",
        "pdm.lock",
        "Pipfile.lock",
        "requirements*.txt",
        "pyproject.toml",
    ),
    *("setup.py", "setup.cfg", "Cargo.lock", "go.sum", "Gemfile.lock", "composer.lock", "mix.lock"),
    *("pubspec.lock", "Package.resolved", "gradle.lockfile", "packages.lock.json", "flake.lock"),
)
_MOST_LOCK_FILES = 500
_LARGEST_LOCK_FILE = 64 * 1024**2
_MOST_LINKED = 1000
_SAID_LINES = 15


class LaneSetup:
    """What the lanes of a run are given before a task begins there."""

    def __init__(
        self, home: Repository, settings: Settings, isolation: Isolation, redactor: Redactor
    ) -> None:
        """`home` is the user's work tree."""
        self._home, self._settings = home, settings
        self._isolation, self._redactor = isolation, redactor

    async def prepare(self, lane: Repository) -> None:
        """Link and install what a lane lacks; to be called when it is at the commit of its next task.

        What was done stays done: that costs a look at the lock files.
        """
        if not self._is_mounted:
            await asyncio.to_thread(self._link_all, lane.root)
        if self._settings.lane_setup:
            await self._install(lane)

    async def describe_missing(self, lane: Repository) -> str:
        """Say which files of the user's work tree the lanes do not have; usually nothing."""
        settings = self._settings
        if self._is_mounted or settings.lane_setup or settings.lane_link:
            return ""
        found = await asyncio.to_thread(list_shared, self._home.root, lane.root)
        if not found:
            return ""
        names = ", ".join(found[:5]) + (" …" if len(found) > 5 else "")
        return (
            f"The lanes do not have {names}, which git ignores. To give them to each lane, set lane_setup "
            "or lane_link (`docs/guides/parallel.md`)."
        )

    @property
    def _is_mounted(self) -> bool:
        """True if the lanes see what they share without links."""
        return self._isolation.chosen.means in MOUNTING

    def _link_all(self, lane: Path) -> None:
        paths = self._lacking(lane, self._settings.lane_link)
        self._check_ignored(lane, paths)
        for path in paths:
            draft = private_folder(lane.with_name(f"{lane.name}.copy")) / Path(path).name
            _remove(draft)
            draft.symlink_to(self._home.root / path)
            _replace(lane, path, draft)

    def _lacking(self, lane: Path, globs: Sequence[str]) -> list[str]:
        """Return what fits the globs and is not in the lane."""
        found = list(islice(match(self._home.root, globs), _MOST_LINKED + 1))
        if len(found) > _MOST_LINKED:
            raise _refuse(f"More than {_MOST_LINKED} files fit lane_link.", "Name their folder instead")
        return [path for path in found if not (has_content(lane / path) or (lane / path).is_symlink())]

    def _check_ignored(self, lane: Path, paths: Sequence[str]) -> None:
        """Refuse what git does not ignore in the lane: it would be committed with the work of a task."""
        ignored = list_ignored(lane, paths)
        open_paths = [path for path in paths if path not in ignored]
        if open_paths:
            why = (
                f"git does not ignore {open_paths[0]} in a lane, so lane_link would make it part of the work."
            )
            # A pattern that ends with a slash fits folders only, not links to them.
            raise _refuse(why, f"Add /{open_paths[0].rstrip('/')} to .gitignore or .git/info/exclude")

    async def _install(self, lane: Repository) -> None:
        note = lane.root.with_name(f"{lane.root.name}.setup")
        digest = await self._digest(lane)
        if note.is_file() and note.read_text() == digest:
            return
        note.unlink(missing_ok=True)
        for argv in self._settings.lane_setup:
            await self._run(argv, lane.root)
        write_atomic(note, (await self._digest(lane)).encode())

    async def _digest(self, lane: Repository) -> str:
        """Return a digest of the commands and of all lock files, as they are in the lane."""
        found = hashlib.sha256(repr(self._settings.lane_setup).encode())
        listed = (await lane.git("ls-files", "-z")).split("\0")
        names = [path for path in listed if _is_lock_file(path)]
        for path in names[:_MOST_LOCK_FILES]:
            file = lane.root / path
            content = read_below(lane.root, file, _LARGEST_LOCK_FILE)
            found.update(path.encode() + b"\0" + hashlib.sha256(content).digest())
        return found.hexdigest()

    async def _run(self, argv: Sequence[str], lane: Path) -> None:
        limit = self._settings.check_timeout
        try:
            done = await capture_inside(
                self._isolation, argv, lane, inside_environment(), limit, network=True, shares=False
            )
        except (SegueError, TimeoutError) as error:
            raise _failed(argv, lane, str(error) or f"it took longer than {limit:g} s") from error
        if done.exit_code != 0:
            said = self._redactor.text((done.out + b"\n" + done.err).decode("utf-8", "replace"))
            lines = [line for line in said.splitlines() if line.strip()][-_SAID_LINES:]
            raise _failed(argv, lane, "\n".join([f"exit code {done.exit_code}", *lines]))


def _is_lock_file(path: str) -> bool:
    name = path.rpartition("/")[2]
    return any(fnmatch(name, pattern) for pattern in _LOCK_FILES)


def _replace(lane: Path, path: str, draft: Path) -> None:
    """Put the draft in its place, where at most an empty file or folder is.

    A link that an agent committed in place of a folder above it is not followed.
    """
    try:
        with Beneath(lane) as folder:
            folder.make_folders(str(Path(path).parent), clear=False)
            folder.remove(path)
            folder.move_in(path, draft)
    except OSError as error:
        why = f"{path} cannot be put into the lane {lane}: {error.strerror or error}."
        raise _refuse(why, "Look what the lane has there") from error


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _refuse(message: str, hint: str) -> NeedsHuman:
    return NeedsHuman(message, kept="All work so far is kept.", hint=f"{hint}, then {AGAIN}")


def _failed(argv: Sequence[str], lane: Path, said: str) -> NeedsHuman:
    return NeedsHuman(
        f"The setup of a lane failed: {shlex.join(argv)}\n{said}",
        kept=f"The lane is as the command left it, in {lane}; all work so far is kept.",
        hint=f"Correct lane_setup or what it needs, then {AGAIN}",
    )


if TYPE_CHECKING:
    from segue.store.journal import Journal


class _LaneParts(Struct, frozen=True):
    """What a lane keeps from task to task."""

    tree: LaneTree
    guard: LaunchGuard
    checking: Checking


class RunLanes:
    """The lanes of one run."""

    def __init__(self, opened: OpenRun, journal: Journal) -> None:
        settings, run = opened.app.loaded.settings, opened.run
        since = run.created / 1000
        self._opened, self._journal = opened, journal
        self._home = opened.tree.home if opened.tree is not None else opened.repo
        folder = opened.app.state_dir.absolute() / "worktrees"
        self._trees = LaneTrees(self._home, folder, run.id, since)
        self._branch = Integration(opened.repo, branch_of(run.id), since)
        self._remote = make_remote(opened, journal, self._branch.branch)
        self._known: dict[int, _LaneParts] = {}
        self._told_missing = False
        self.seats = Seats(settings.jobs)

    async def run_tasks(self, context: RunContext) -> None:
        """Run the tasks, several at once."""
        await run_side_by_side(context, self._opened.spec.tasks, Lanes(self.seats, self.open))

    async def begin(self, context: RunContext) -> None:
        """Detach the run's own work tree from its branch, which is moved from elsewhere now."""
        if not context.cloud:
            await self._branch.sync(self._opened.repo)
        elif not await self._home.has_branch(self._branch.branch):
            start = await context.workspace.begin("", context.source.head_branch())
            await self._home.git("branch", "--no-track", self._branch.branch, start.head)
        self.seats.head = head = await self._branch.head()
        await self._branch.merge(head, head)  # a git that cannot do that says so before anybody works

    async def open(self, context: RunContext, number: int, seat: Seat) -> RunContext:
        """Return the context in which a lane works; its work tree is made if need be."""
        if context.cloud:
            return self._open_remote(context, number, seat)
        known = self._known.get(number)
        if known is None or not (known.tree.root / ".git").exists():
            known = self._known[number] = await self._make(number, context)
        return replace(
            context,
            workspace=known.tree,
            launcher=replace(context.launcher, guard=known.guard, seat=seat, lane=number),
            checking=known.checking,
            lane=Lane(number, known.tree, self._branch, self.seats, seat, context.checking),
        )

    async def _make(self, number: int, context: RunContext) -> _LaneParts:
        opened = self._opened
        made = await self._trees.open(number, await self._branch.head())
        places = (made.root, made.git_dir, self._home.own)
        tree = LaneTree(*places, trees=self._trees, tell=self._tell, furnish=self._prepare)
        folder = opened.app.run_folder(opened.run.id) / "checks" / f"lane-{number}"
        guard = opened.app.guard_folder(opened.run.id)
        checking = make_checking(
            opened.app, tree, folder, guard, context.checking.examine, setups=folder.parent
        )
        return _LaneParts(tree, make_guard(opened, tree, number), checking)

    def _open_remote(self, context: RunContext, number: int, seat: Seat) -> RunContext:
        """Return the context of a lane whose agents work elsewhere."""
        remote = self._remote.in_lane(number, self._branch.branch)
        return replace(
            context,
            workspace=remote,
            launcher=replace(context.launcher, seat=seat, lane=number),
            lane=Lane(number, RemoteLane(remote), self._branch, self.seats, seat, context.checking),
        )

    async def finish(self, context: RunContext) -> None:
        """Bring the run's own work tree to what all lanes have done, with what the user committed since."""
        if context.cloud:
            await self._remote.publish(self._branch.branch)
            await self._tell(f"The work of all tasks is on branch {self._branch.branch} of {REMOTE}.")
            return
        if is_merged(self._opened.app, self._opened.spec):
            await self._catch_up(context)
        await self._branch.sync(self._opened.repo)
        await self._opened.repo.git("switch", "--quiet", "--ignore-other-worktrees", self._branch.branch)

    async def close(self) -> None:
        """Remove the lanes; what no commit contains is kept and named."""
        await forget_lanes(self._home, self._branch.branch)
        for said in await self._trees.close():
            await self._tell(said)

    async def _prepare(self, lane: Repository) -> None:
        """Give a lane what git does not have; say once what it lacks."""
        services = self._opened.parts.services
        setup = LaneSetup(self._home, self._opened.app.loaded.settings, services.isolation, services.redactor)
        await setup.prepare(lane)
        if not self._told_missing and (said := await setup.describe_missing(lane)):
            await self._tell(said)
        self._told_missing = True

    async def _tell(self, said: str) -> None:
        await self._journal.emit(NoticeGiven(said))

    async def _catch_up(self, context: RunContext) -> None:
        """Merge the user's new commits into the branch of the run: theirs only ever gets what was checked."""
        onto, branch = self._opened.spec.onto, self._branch
        while (merged := await catch_up(self._home, branch, onto)) is not None and merged.tree:
            for argv in context.checking.commands:
                sealer = context.checking.sealer()
                result = await sealer.check(argv, merged.theirs, merged.tree, kind=TaskKind.BUILD)
                if not result.ok:
                    raise NeedsHuman(
                        f"You committed to {onto} meanwhile, and together with that a check fails: "
                        f"{result.command} ({result.reason or result.exit_code}).",
                        kept=f"All tasks are done, on branch {branch.branch}; {onto} is as you left it.",
                        hint=f"Fix it on either branch, then: segue resume {self._opened.run.id}",
                    )
            message = f"Merge {onto} into {branch.branch}\n\nSegue-Run: {self._opened.run.id}\n"
            joined = await branch.join(merged.ours, merged.theirs, merged.tree, message)
            if await branch.advance(merged.ours, joined):
                return
