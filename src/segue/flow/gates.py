"""Gates: where a run waits for a person between two tasks."""

from __future__ import annotations

from segue.domain.errors import AtGate
from segue.domain.events import GatePassed, GateReached
from segue.domain.task import Task
from segue.flow.context import RunContext


class Gates:
    """Stops the run before the next task where a gate has been reached and nobody has let it pass.

    A gate that was announced before the run ended with "needs a human" is passed by resuming the run. After a
    kill it is announced again: nobody may have seen it.
    """

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._kinds = context.policy.gates
        self._tasks = context.source.tasks().tasks if self._kinds else ()

    async def stop_before(self, task: Task) -> None:
        """Raise AtGate if a person must look before this task begins."""
        gate = self._find(task) if self._kinds else None
        if gate is None:
            return
        view, run = self._context.view, self._context.journal.run.id
        if self._context.resumed_by_person and view.gate == gate.key:
            await self._context.emit(GatePassed(gate.key))
            return
        text = self._context.redact(gate.checkpoint) or f"Task {gate.key} is done"
        await self._context.emit(GateReached(gate.key, text))
        raise AtGate(
            f"The run waits for you after task {gate.key}: {text}.",
            kept="Everything done so far is kept; nothing is running.",
            hint=f"Look at the work, then continue: segue resume {run}",
        )

    def _find(self, task: Task) -> Task | None:
        """Return the task with the last gate before this one, if this run has worked up to it."""
        view = self._context.view
        worked = {key for key, known in view.tasks.items() if known.started is not None}
        ahead = {key for key, known in view.tasks.items() if known.state in ("pending", "running", "parked")}
        begun, found = False, None
        for other in self._tasks:
            if other.key == task.key:
                break
            if other.key in ahead:  # where several are worked on at once, it may not be done yet
                continue
            begun = begun or other.key in worked
            is_checkpoint = bool(other.checkpoint) and "checkpoint" in self._kinds
            if begun and (is_checkpoint or ("task" in self._kinds and other.key in worked)):
                found, begun = other, False
        return found if found is not None and found.key not in view.passed else None
