"""Follows the pull request of a run: looks at what comes back, and lets the run work on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.amounts import format_count
from segue.domain.delivery import Delivered, Feedback, FeedbackItem, FeedbackKind, Target, is_feedback
from segue.domain.errors import NeedsHuman, SegueError, UsageError
from segue.domain.events import FeedbackAnswered, FeedbackReceived, NoticeGiven, WorkDelivered
from segue.domain.results import Nothing, StepFacts, StepResult
from segue.domain.run import Run, RunState
from segue.domain.task import Task, TaskStatus
from segue.flow.context import RunContext
from segue.flow.feedback import name_tasks, read_reply, run_feedback, task_of
from segue.ports import Delivery
from segue.runtime.app import App
from segue.runtime.delivery import delivery_name
from segue.runtime.wiring import make_delivery, raise_problems
from segue.system.git.branches import REMOTE
from segue.system.git.remotes import PushRemote, fetched_from
from segue.system.patience import outlast
from segue.system.process.processes import Processes
from segue.view.load import load_view
from segue.view.run import RunView

if TYPE_CHECKING:
    from segue.runtime.open import OpenRun
    from segue.store.journal import Journal
    from segue.store.store import Store
    from segue.system.git.integration import BranchSync

_DONE = ("done", "skipped")


class PullRequestStatus(Struct, frozen=True):
    """What a look at the pull request of a run has shown."""

    delivered: Delivered
    feedback: Feedback
    fresh: tuple[FeedbackItem, ...]
    """What nobody has worked on yet."""
    unfinished: bool
    """True if the run was cut off, or needed a person, while it worked on feedback."""
    stuck: tuple[FeedbackItem, ...]
    """What was worked on and is still there: CI that fails, a conflict."""
    rounds: int
    """How often feedback was worked on so far."""

    @property
    def is_quiet(self) -> bool:
        """True if there is nothing to do and nothing to wait for."""
        return not (self.fresh or self.unfinished or self.stuck or self.feedback.pending)


class Follower:
    """Looks at the pull request of one run, again and again."""

    def __init__(self, app: App, run: Run) -> None:
        self._app, self._run = app, run
        services = app.services(Processes())
        self._delivery = make_delivery(app, delivery_name(app, run.spec), services)
        self._target = Target(run.spec.into, fetched_from(run.spec.remote))

    async def check(self) -> None:
        """Refuse a run without a pull request, and a service that cannot be asked."""
        with self._app.store(read_only=True) as store:
            _find_delivered(load_view(store, self._run), self._run)
        raise_problems(await self._delivery.check(self._target))

    async def look(self) -> PullRequestStatus:
        """Ask the service, and compare with what the journal knows."""
        with self._app.store(read_only=True) as store:
            run = store.run(self._run.id) or self._run
            view, known = load_view(store, run), _read_received(store, run.id)
        if run.state is not RunState.DONE and not known:
            raise UsageError(
                f"Run {run.id} is not done yet: its own tasks come first.",
                kept="Nothing was changed.",
                hint=f"Continue it: segue resume {run.id}",
            )
        delivered = _find_delivered(view, run)
        patience = self._app.loaded.settings.limits.patience
        found = await outlast(lambda: self._delivery.feedback(self._target, delivered), patience, _ignore)
        if found is None:
            raise _no_request(run)
        seen = {event.item for event in known}
        done = run.state is RunState.DONE
        current = found.head == delivered.head
        again = [item for item in found.items if item.id in seen and item.kind is not FeedbackKind.REVIEW]
        return PullRequestStatus(
            delivered=delivered,
            feedback=found,
            fresh=tuple(item for item in found.items if item.id not in seen),
            unfinished=not done,
            stuck=tuple(again) if done and current else (),
            rounds=max((event.round for event in known), default=0),
        )


class PullRequestFeedback(Struct):
    """What came back from the pull request of an open run."""

    opened: OpenRun
    store: Store
    journal: Journal
    view: RunView
    received: list[FeedbackReceived]

    @classmethod
    def of(cls, opened: OpenRun, store: Store, journal: Journal, view: RunView) -> PullRequestFeedback | None:
        """Return what came back; None if nothing ever did."""
        known = _read_received(store, opened.run.id) if opened.tree is not None else []
        return cls(opened, store, journal, view, known) if known or opened.feedback else None

    async def receive(self) -> None:
        """Record what is new as tasks of the run, and take over what others have pushed to its branch."""
        seen = {event.item for event in self.received}
        fresh = [item for item in self.opened.feedback if item.id not in seen]
        number = 1 + max((event.round for event in self.received), default=0)
        keys = {*self.view.tasks, *(event.task for event in self.received)}
        for event in name_tasks(fresh, keys, number):
            recorded = await self.journal.emit(event)
            assert isinstance(recorded.event, FeedbackReceived)
            self.received.append(recorded.event)
        count = await self._upkeep.take_over()
        if count:
            said = (
                f"Others have pushed {format_count(count, 'commit')} to the branch, which are part of it now."
            )
            await self.journal.emit(NoticeGiven(said))

    async def run(self, context: RunContext) -> None:
        """Work on everything that is not done."""
        upkeep = self._upkeep
        left = [event for event in self.received if not self._is_done(event)]
        await run_feedback(context, left, upkeep.merge_base)
        markers = await self._find_markers()
        if markers:
            raise NeedsHuman(
                f"Conflict markers are left in {', '.join(markers[:5])}.",
                kept=f"The merge is in {context.workspace.root}; nothing was pushed.",
                hint=f"Resolve and commit them there, then: segue follow {self.opened.run.id}",
            )

    async def answer(self) -> None:
        """Answer every comment whose task is done, where it was made; once each."""
        app, spec = self.opened.app, self.opened.spec
        delivery = make_delivery(app, delivery_name(app, spec), self.opened.parts.services)
        for event in self.received:
            if not event.thread or not self._is_done(event):
                continue
            try:
                await self._answer(delivery, event)
            except SegueError as error:
                await self.journal.emit(NoticeGiven(f"Task {event.task} was not answered: {error.message}"))

    async def _answer(self, delivery: Delivery, event: FeedbackReceived) -> None:
        from segue.reports.card.markdown import escape_markdown  # few runs need it

        run, spec, journal = self.opened.run, self.opened.spec, self.journal
        target, delivered = Target(spec.into, fetched_from(spec.remote)), _find_delivered(self.view, run)
        key, (words, commit) = f"answer/{event.task}", read_reply(journal, event.task)
        changed = f"Changed in {commit}." if commit else "Nothing was changed for this."
        text = f"{escape_markdown(words)}\n\n{changed}"
        kind = FeedbackKind(event.kind)
        item = FeedbackItem(id=event.item, kind=kind, title=event.title, thread=event.thread)
        patience = self.opened.app.loaded.settings.limits.patience

        async def send() -> None:
            await delivery.answer(target, delivered, item, text, f"{run.id}/{event.task}")

        async def work(_token: str) -> StepResult[Nothing]:
            await outlast(send, patience, journal.emit)
            await journal.emit(FeedbackAnswered(event.task, event.item, text), key)
            return StepResult(True, Nothing())

        await journal.step(key, Nothing, work, facts=StepFacts(event.task, "answer"))

    async def may_propose(self) -> bool:
        """Return whether the branch can be shown: not in the middle of a merge with conflicts."""
        return not await self._find_markers()

    async def _find_markers(self) -> tuple[str, ...]:
        """Return the files with conflict markers, if there ever was a conflict."""
        conflicts = any(event.kind == FeedbackKind.CONFLICT for event in self.received)
        return await self._upkeep.find_markers() if conflicts else ()

    def _is_done(self, event: FeedbackReceived) -> bool:
        task = self.view.tasks.get(event.task)
        return task is not None and task.state in _DONE

    @property
    def _upkeep(self) -> BranchSync:
        from segue.system.git.integration import BranchSync, Integration

        opened = self.opened
        assert opened.tree is not None
        own = Integration(opened.repo, opened.tree.branch, since=opened.run.created / 1000)
        return BranchSync(PushRemote(opened.tree.home, REMOTE), own, opened.spec.into)


def _read_received(store: Store, run: str) -> list[FeedbackReceived]:
    events = store.events(run, kinds=(FeedbackReceived,))
    return [one.event for one in events if isinstance(one.event, FeedbackReceived)]


def find_returned(store: Store, run: Run, key: str) -> Task | None:
    """Return a task that came back, from the pull request or the run itself, as far as it is known."""
    task = load_view(store, run).tasks.get(key) if is_feedback(key) else None
    done = task is not None and task.state in _DONE
    status = TaskStatus.DONE if done else TaskStatus.PENDING
    received = next((event for event in _read_received(store, run.id) if event.task == key), None)
    if received is not None:
        return replace(task_of(received), status=status)
    return Task(key, task.title, "", status) if task is not None else None


def _find_delivered(view: RunView, run: Run) -> Delivered:
    event: WorkDelivered | None = view.delivery
    if event is None or not event.number:
        raise _no_request(run)
    names = WorkDelivered.__struct_fields__[2:]
    known = {name: getattr(event, name) for name in names}
    return Delivered(words=event.text, kind=event.delivery, **known)


def _no_request(run: Run) -> UsageError:
    return UsageError(
        f"Run {run.id} has no pull request to follow.",
        kept="Nothing was changed.",
        hint="Start a run with --pr: see `docs/guides/pull-requests.md`",
    )


async def _ignore(_event: object) -> None:
    return
