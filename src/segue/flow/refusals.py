"""What ends a run at a launch: a cap that is reached, an agent that may not work."""

from __future__ import annotations

from segue.domain.errors import CredentialsError, NeedsHuman
from segue.domain.outcome import Failure


class OverBudget(NeedsHuman):
    """A cap forbids one more launch; `reason` says which."""

    def __init__(self, reason: str, work: str, run: str) -> None:
        super().__init__(
            f"{work} was not started: {reason}.",
            kept="Everything done so far is kept.",
            hint=f"Raise the limit, then continue with: segue resume {run}",
        )
        self.reason = reason


def deny(task: str, agent: str, failure: Failure, run: str) -> CredentialsError:
    """Return the error for an agent that is not, or no longer, allowed to work."""
    work = f"on task {task}" if task else "on the plan"
    return CredentialsError(
        f"{agent} is not allowed to work {work}: {failure.message}",
        kept="Everything done so far.",
        hint=f"Log in or set its key (segue doctor checks it), then: segue resume {run}",
    )
