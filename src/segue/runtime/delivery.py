"""Delivers the work of a run: chooses how and where to, finds out early what is missing, and does it once."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from segue.config.settings import Settings
from segue.domain.amounts import format_count
from segue.domain.delivery import Delivered, Target
from segue.domain.errors import NeedsHuman, SegueError, UsageError, WorkspaceError
from segue.domain.events import NoticeGiven, WorkDelivered
from segue.domain.results import StepFacts, StepResult
from segue.domain.run import RunSpec, StepState
from segue.ports import Delivery, Handover, Source
from segue.runtime import registry
from segue.runtime.app import App
from segue.runtime.wiring import make_delivery, raise_problems
from segue.system.files import read_start
from segue.system.git.branches import REMOTE, RemoteBranches
from segue.system.git.remotes import PushRemote, fetched_from, pushed_branch
from segue.system.git.repository import Repository
from segue.system.git.worktree import Worktree, WorktreeResult
from segue.system.patience import outlast
from segue.system.services import Services

if TYPE_CHECKING:
    from segue.store.journal import Journal
    from segue.store.store import Store


_KEPT = "Nothing was started."
_BASE = "refs/segue/base"
"""Where the branch of the remote is kept that a pull request is for."""
_LOG_IN = "Check the address, and let git log in there: for GitHub with gh auth setup-git"
_STEP = "deliver"
_HEAD = 16 * 1024
_HEADING = re.compile(
    r"^# +(?:Tasks|Plan|Implementation Plan|Feature Specification): *(.+?)#*$|^# +(.+?)#*$", re.MULTILINE
)
_SAYS_NOTHING = re.compile(
    r"(?:the |implementation |project |work )*(?:plan|tasks|todo|task list)\W*", re.IGNORECASE
)
_NOTHING = Delivered(words="There is nothing to propose: the run has changed nothing.")


def check_delivery(settings: Settings) -> None:
    """Refuse settings about the delivery that do not fit together."""
    name = settings.delivery
    if name is None:
        return
    registry.check_name("deliveries", name)
    if settings.worktree_end == "merge" and not registry.says("deliveries", name, "merges"):
        raise UsageError(
            f'delivery = "{name}", but worktree_end = "merge".', kept=_KEPT, hint="Leave one of them out"
        )
    if settings.commit == "never":
        raise UsageError(
            f'delivery = "{name}" delivers commits, but commit = "never".',
            kept=_KEPT,
            hint='Set commit = "task"',
        )


def is_merged(app: App, spec: RunSpec) -> bool:
    """Return whether the work of a run ends up in the user's own branch."""
    return registry.says("deliveries", delivery_name(app, spec), "merges")


def delivery_name(app: App, spec: RunSpec) -> str:
    """Return the delivery of a run.

    Who only asks for several tasks at once expects the work where it would be otherwise.
    """
    settings = app.loaded.settings
    if settings.delivery is not None:
        return settings.delivery
    merges = settings.worktree_end == "merge" or (spec.lanes and not settings.worktree)
    return "merge" if merges else "branch"


async def choose_target(app: App, services: Services, home: Repository, spec: RunSpec) -> tuple[RunSpec, str]:
    """Return the spec with the target of its delivery, and what to say about it.

    Everything that would keep the work from being delivered at the end is found here, before it begins.
    """
    if spec.worktree is None:
        _refuse_in_place(app)
        return spec, ""
    delivery = make_delivery(app, delivery_name(app, spec), services)
    if not delivery.needs_remote:
        raise_problems(await delivery.check(Target(spec.onto)))
        return spec, ""
    remote = PushRemote(home, REMOTE)
    address = await remote.address()
    if not address:
        raise WorkspaceError(
            f"{home.root} has no remote called {REMOTE}, so nothing can be pushed.",
            kept=_KEPT,
            hint=f"git remote add {REMOTE} https://github.com/OWNER/REPO",
        )
    if spec.remote and spec.remote != address:
        raise UsageError(
            f"The run is to be delivered to {spec.remote}, but {REMOTE} is {address} now.",
            kept=_KEPT,
            hint=f"Set it back: git remote set-url {REMOTE} ADDRESS",
        )
    raise_problems(await delivery.check(Target(spec.into, fetched_from(address))))
    try:
        base = spec.into or await _choose_base(app, home, remote)
        said = "" if spec.into else await _compare(home, remote, base)
    except WorkspaceError as error:
        raise WorkspaceError(
            f"{REMOTE} ({address}) cannot be used. {error.message}", kept=_KEPT, hint=_LOG_IN
        ) from error
    refused = await remote.try_push("segue/try")
    if refused:
        raise WorkspaceError(
            f"Nothing can be pushed to {REMOTE} ({address}). {refused}", kept=_KEPT, hint=_LOG_IN
        )
    return replace(spec, into=base, remote=address), said


def _refuse_in_place(app: App) -> None:
    name = app.loaded.settings.delivery
    if name is not None:
        raise UsageError(
            f'delivery = "{name}" has no effect: the run works in your own work tree, or in the cloud.',
            kept=_KEPT,
            hint="Finish it without --pr; a new one gets a branch of its own. Cloud agents push theirs",
        )


async def _choose_base(app: App, home: Repository, remote: PushRemote) -> str:
    """Return the branch that a pull request is for: the one that was named, or that of the user."""
    named = (app.loaded.settings.base or "").removeprefix(f"{REMOTE}/")
    base = named or await pushed_branch(home, REMOTE)
    base = base or await RemoteBranches(home, REMOTE, app.state_dir / "worktrees").default_branch()
    if not await remote.head_of(base):
        raise UsageError(
            f"Branch {base} does not exist on {REMOTE}, so nothing can be proposed for it.",
            kept=_KEPT,
            hint=f"Push it: git push --set-upstream {REMOTE} {base}   or name another one with --base",
        )
    return base


async def _compare(home: Repository, remote: PushRemote, base: str) -> str:
    """Say what differs between where the run starts and the branch that its pull request is for."""
    await remote.fetch(base, _BASE)
    own = int(await home.git("rev-list", "--count", f"{_BASE}..HEAD"))
    new = int(await home.git("rev-list", "--count", f"HEAD..{_BASE}"))
    said = []
    if own:
        yours = format_count(own, "commit")
        said.append(f"The pull request will also contain {yours} of yours, not yet on {base} of {REMOTE}.")
    if new:
        theirs = format_count(new, "commit")
        said.append(f"{base} of {REMOTE} has {theirs} that you do not have; the run starts without them.")
    return " ".join(said)


class Delivering(Struct, frozen=True):
    """One run on its way out."""

    app: App
    services: Services
    spec: RunSpec
    tree: Worktree
    source: Source
    store: Store
    journal: Journal

    @property
    def delivery(self) -> Delivery:
        """How it is delivered."""
        return make_delivery(self.app, delivery_name(self.app, self.spec), self.services)

    @property
    def target(self) -> Target:
        """Where to."""
        if not self.spec.into:
            return Target(self.spec.onto)
        return Target(self.spec.into, fetched_from(self.spec.remote))

    async def finish(self, release: Callable[[], None]) -> WorktreeResult:
        """Deliver a run that is done, and remove its work tree."""
        delivery, tree = self.delivery, self.tree
        if not delivery.needs_remote:
            result = await tree.finish(lambda: self.deliver(delivery), release, delivery.leaves)
            if not result.removed:  # what became of the work has been said otherwise
                await self.journal.emit(NoticeGiven(result.words))
            return result
        # What no commit can hold keeps the work tree, but not the rest from being proposed.
        found = await self.deliver(delivery) if await self.has_work() else _NOTHING
        result = await tree.finish(lambda: _return(found), release, keeps=True)
        if found is _NOTHING or not result.removed:
            await self.journal.emit(NoticeGiven(result.words))
        words = found.words if result.removed else f"{found.words} {result.words}"
        return WorktreeResult(words, found.merged, result.removed)

    async def propose_part(self, why: NeedsHuman) -> None:
        """Propose what is done so far as a draft, where the run goes out as a pull request."""
        delivery = self.delivery
        if not delivery.needs_remote:
            return
        try:
            if await self.has_work():
                await self.deliver(delivery, note=why.message)
        except SegueError as error:  # why the run ended matters more
            await self.journal.emit(NoticeGiven(f"The work done so far was not proposed: {error.message}"))

    async def deliver(self, delivery: Delivery, note: str = "") -> Delivered:
        """Deliver the work as a step of the journal; `note` says why it is not ready yet."""
        journal = self.journal
        number = 1 + sum(step.state is not StepState.STARTED for step in journal.steps(f"{_STEP}/"))
        key = f"{_STEP}/{number}"

        async def work(token: str) -> StepResult[Delivered]:
            handover = await self._hand_over(token, note)
            patience = self.app.loaded.settings.limits.patience
            found = await outlast(lambda: delivery.deliver(handover), patience, journal.emit)
            facts = {name: getattr(found, name) for name in WorkDelivered.__struct_fields__[2:]}
            await journal.emit(WorkDelivered(delivery.name, found.words, **facts), key)
            return StepResult(True, found)

        return (await journal.step(key, Delivered, work, facts=StepFacts(phase=_STEP))).output

    async def has_work(self) -> bool:
        """Return whether the branch has anything that the remote's does not."""
        head = await self.tree.home.branch_head(self.tree.branch)
        base = await PushRemote(self.tree.home, REMOTE).fetch(self.spec.into, _BASE)
        return bool(head) and not await self.tree.home.objects().is_ancestor(head, base)

    async def _hand_over(self, token: str, note: str) -> Handover:
        from segue.reports.card.build import build_cards
        from segue.reports.card.request import render_request, weakest_level, write_title

        tree, spec, run = self.tree, self.spec, self.journal.run
        head = await tree.home.branch_head(tree.branch)
        cards = build_cards(self.store, run, self.source.look().tasks)
        clean = self.services.redactor.text

        async def push(options: Sequence[str] = ()) -> None:
            await PushRemote(tree.home, REMOTE).push(tree.branch, head, spec.into, spec.remote, options)

        async def merge() -> str:
            return await tree.merge_into(spec.onto, forward=spec.lanes)

        return Handover(
            run=run.id,
            branch=tree.branch,
            head=head,
            target=self.target,
            title=clean(write_title(read_heading(self.source) or self.source.title, cards)),
            text=clean(render_request(cards, run.id, note)),
            level=weakest_level(cards),
            ready=not note,
            token=token,
            push=push,
            merge=merge,
        )


async def _return(found: Delivered) -> Delivered:
    return found


def read_heading(source: Source) -> str:
    """Return the heading of the file that lists the tasks, if it says what they are about."""
    if source.outline is not None or not source.contract_files:
        return ""
    text = read_start(source.contract_files[0], _HEAD).decode("utf-8", "replace")
    found = _HEADING.search(text)
    words = (found[1] or found[2]).strip() if found else ""
    return "" if _SAYS_NOTHING.fullmatch(words) else words
