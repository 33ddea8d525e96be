"""The lanes of a run: opens them, brings their work together, and tidies up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.errors import NeedsHuman
from segue.domain.events import NoticeGiven
from segue.domain.task import TaskKind
from segue.flow.context import Checking, Lane, Lanes, RunContext
from segue.flow.lanes import Seat, Seats
from segue.flow.parallel import run_side_by_side
from segue.proof.guard import LaunchGuard
from segue.runtime.base import make_remote
from segue.runtime.delivering import is_merged
from segue.runtime.guarding import make_guard
from segue.runtime.lanes import LaneSetup
from segue.runtime.open import OpenRun
from segue.runtime.wiring import make_checking
from segue.system.git.branches import REMOTE, forget_lanes
from segue.system.git.lane_tree import LaneTree, RemoteLane
from segue.system.git.lanes import LaneTrees
from segue.system.git.merging import Integration, catch_up
from segue.system.git.repository import Repository
from segue.system.git.worktree import branch_of

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
        self._branch = Integration(opened.repo, branch_of(run.id), settings.merge_union, since)
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
        tree = LaneTree(*places, trees=self._trees, tell=self._tell, set_up=self._set_up)
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

    async def _set_up(self, lane: Repository) -> None:
        """Give a lane what git does not have; say once what it lacks."""
        services = self._opened.parts.services
        setup = LaneSetup(self._home, self._opened.app.loaded.settings, services.isolation, services.redactor)
        await setup.set_up(lane)
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
