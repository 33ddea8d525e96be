"""Random but well-formed histories of runs: what a journal could really contain, kills included."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import strategies as st

from segue.domain.events import (
    AgentEnded,
    AgentReplaced,
    AgentStarted,
    AgentText,
    AgentTool,
    Committed,
    Event,
    NoticeGiven,
    PromptSent,
    Recorded,
    RunEnded,
    RunParked,
    RunResumed,
    RunStarted,
    StepAdopted,
    StepEnded,
    StepStarted,
    Tampered,
    TaskCollided,
    TaskEnded,
    TaskMarked,
    TaskMerged,
    TaskStarted,
    TaskWaiting,
    VerdictGiven,
)
from segue.domain.outcome import Failure, FailureKind, Usage
from segue.domain.proof import Level, Proof, Tampering
from segue.domain.task import TaskKind
from segue.domain.verdict import Action, Result

KEYS = ("1", "2", "3")
TITLES = {key: f"Title {key}" for key in KEYS}
RUN = "20260101-000000-abcd"
FACTS = ("plan.md", "/repo", "scripted", "execute")


class _History:
    """Writes a history event by event."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.events: list[Recorded] = []
        self.now = 1_000_000

    def add(self, event: Event, step: str | None = None) -> None:
        """Append an event, a little later than the last one."""
        self.now += self.draw(st.integers(0, 5_000))
        self.events.append(Recorded(RUN, len(self.events) + 1, self.now, step, event))

    def session(self, first: bool) -> None:
        """One process: it starts or resumes, works, and ends or is killed."""
        self.now += self.draw(st.integers(0, 10_000_000))
        last = self.events[-1].ts if self.events else None
        self.add(RunStarted(*FACTS) if first else RunResumed(*FACTS, last_seen=last))
        if self.draw(st.booleans()):
            if self.lanes():
                return  # killed
        else:
            for key in self.draw(st.lists(st.sampled_from(KEYS), max_size=3)):
                if any(self.task(key)) and self.draw(st.booleans()):
                    return  # killed
        self.add(RunEnded(self.draw(st.sampled_from(["done", "stopped", "needs_human"]))))

    def decision(self) -> None:
        """A person accepts or skips a task while nobody works on the run."""
        self.now += self.draw(st.integers(0, 10_000_000))
        key = self.draw(st.sampled_from(KEYS))
        end = f"task/{key}/end"
        self.add(StepStarted(2, "t", key, "end"), end)
        self.add(TaskMarked(key, True, "Ada", "because", self.draw(st.booleans())), end)
        self.add(StepEnded(2, True), end)

    def lanes(self) -> bool:
        """Several tasks at once, each in a lane; returns whether the process was killed meanwhile."""
        keys = self.draw(st.lists(st.sampled_from(KEYS), unique=True, max_size=3))
        for key in keys[1:]:
            if self.draw(st.booleans()):
                self.add(TaskWaiting(key, (keys[0],), "both name a.py"))
        at_work = [self.task(key, lane) for lane, key in enumerate(keys, 1)]
        while at_work:
            task = self.draw(st.sampled_from(at_work))
            cut_off = next(task, None)
            if cut_off:
                return True
            if cut_off is None:
                at_work.remove(task)
        return False

    def task(self, key: str, lane: int = 0) -> Iterator[bool]:
        """One task, perhaps cut off in the middle: yields now and then whether it was."""
        started = TaskStarted(key, TITLES[key], self.draw(st.sampled_from(TaskKind)), lane)
        self.add(started)
        for number in range(1, self.draw(st.integers(1, 3)) + 1):
            for cut_off in self.launch(key, number):
                yield cut_off
                if cut_off:
                    return
            if lane and self.draw(st.integers(0, 3)) == 0:
                if self.draw(st.booleans()):
                    self.add(Committed(key, "c" * 40), f"task/{key}/commit/task")
                    yield False
                    self.add(StepStarted(1, "t", key, "merge"), f"task/{key}/merge/{number}")
                    self.add(StepEnded(1, False), f"task/{key}/merge/{number}")
                    yield False
                self.add(TaskCollided(key, ("1",), ("a.py",), "both changed it", "again"))
                yield False
                if self.draw(st.booleans()):
                    self.add(started)
        self.add(Committed(key, "c" * 40), f"task/{key}/commit/task")
        yield False
        if lane:
            step = f"task/{key}/merge/1"
            self.add(StepStarted(1, "t", key, "merge"), step)
            yield False
            self.add(TaskMerged(key, "d" * 40, "c" * 40), step)
            self.add(StepEnded(1, True), step)
            yield False
        done, skipped = self.draw(st.booleans()), self.draw(st.integers(0, 4)) == 0
        replanned = not done and not skipped and self.draw(st.integers(0, 3)) == 0
        remaining = self.draw(st.integers(0, 2))
        proof = self.draw(_PROOF) if done and not skipped else None
        ended = TaskEnded(
            key,
            done or skipped,
            "because",
            remaining=remaining,
            skipped=skipped,
            replanned=replanned,
            proof=proof,
        )
        self.add(ended)

    def launch(self, key: str, number: int) -> Iterator[bool]:
        """One launch: yields now and then whether it was cut off."""
        phase = self.draw(st.sampled_from(["plan", "execute", "resolve", "verify"]))
        step = f"task/{key}/{phase}/{number}"
        self.add(StepStarted(len(self.events), "t", key, phase, number, "scripted"), step)
        self.add(PromptSent("d", 3), step)
        if self.draw(st.booleans()):
            self.add(StepAdopted(1, "t"), step)
            self.add(PromptSent("d", 3), step)
        self.add(AgentStarted("scripted"), step)
        for _ in range(self.draw(st.integers(0, 3))):
            self.add(self.draw(st.sampled_from([AgentText("x"), AgentTool("Bash"), NoticeGiven("n")])), step)
        yield self.draw(st.integers(0, 9)) == 0
        for _ in range(self.draw(st.integers(1, 2))):  # an adopted launch reports its end again
            self.add(AgentEnded(True, usage=self.draw(_USAGE), failure=self.draw(_FAILURE)), step)
        self.add(VerdictGiven(key, Result.PASS, Action.PROCEED, "fine"), step)
        self.add(StepEnded(1, True, 5), step)
        yield False
        for findings in self.draw(st.lists(st.integers(1, 3), max_size=1)):
            self.add(Tampered(key, (Tampering("ticks", "They were taken back."),) * findings), step)
        if self.draw(st.integers(0, 5)) == 0:
            self.add(AgentReplaced(key, phase, "scripted", "other", FailureKind.AUTH, "no"))
        if self.draw(st.integers(0, 5)) == 0:
            park = f"task/{key}/park/{phase}/{number}"
            self.add(RunParked(key, self.now / 1000 + 60))
            self.add(StepStarted(1, "t", phase="sleep"), park)
            yield False
            self.now += self.draw(st.sampled_from([0, 60_000]))
            self.add(StepEnded(1, True), park)


_USAGE = st.none() | st.builds(
    Usage, st.integers(0, 5000), st.integers(0, 5000), st.none() | st.integers(0, 100).map(lambda c: c / 4)
)
_PROOF = st.none() | st.builds(lambda level: Proof(level=level), st.sampled_from(Level))
"""None: a version that recorded no proof."""
_FAILURE = st.none() | st.just(Failure(FailureKind.USAGE_LIMIT, "limit", until=1234.5))


@st.composite
def histories(draw: st.DrawFn) -> list[Recorded]:
    """Return the events of one run: some sessions, each ended or killed."""
    history = _History(draw)
    for number in range(draw(st.integers(1, 3))):
        history.session(first=number == 0)
        if draw(st.integers(0, 3)) == 0:
            history.decision()
    return history.events
