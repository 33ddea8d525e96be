"""Check that a delivery keeps the promises of `segue.ports.Delivery`."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec import Struct
from msgspec.structs import replace

from segue.domain.delivery import Target
from segue.domain.errors import SegueError
from segue.ports import Delivery, Handover
from tests.conformance.trial import report_broken

_HEAD = "0123456789abcdef0123456789abcdef01234567"


def check_delivery(
    make: Callable[[], Delivery],
    target: Target,
    work: Handover | None = None,
    count: Callable[[], int] | None = None,
) -> None:
    """Raise AssertionError with every promise that is broken.

    `make` builds a delivery that is ready for `target`, `work` is what it gets (without one, it must do with
    a branch that cannot be moved), `count` returns how many proposals there are, if that can be known.
    """
    trial = _DeliveryTrial(make, target, work or _imagine(target), count)
    promises = (_declares, _is_ready, _delivers, _finds_again, _refuses_the_base)
    report_broken("delivery", promises, lambda promise: promise(trial))


class _DeliveryTrial(Struct, frozen=True):
    make: Callable[[], Delivery]
    target: Target
    work: Handover
    count: Callable[[], int] | None


def _imagine(target: Target) -> Handover:
    async def push() -> None:
        return

    async def merge() -> str:
        return "this is a trial"

    return Handover(
        run="20261115-010203-abcd",
        branch="segue/20261115-010203-abcd",
        head=_HEAD,
        target=target,
        title="A trial",
        text="Nothing was done.",
        level="checked",
        token="trial",
        push=push,
        merge=merge,
    )


async def _declares(trial: _DeliveryTrial) -> None:
    """It has a name, and says whether it pushes, and whether it merges."""
    delivery = trial.make()
    assert delivery.name, "its name is empty"
    for name in ("needs_remote", "merges", "leaves"):
        assert isinstance(getattr(delivery, name), bool), f"{name} is neither true nor false"
    assert not (delivery.merges and delivery.needs_remote), "what is merged here is not pushed"


async def _is_ready(trial: _DeliveryTrial) -> None:
    """A delivery that can work reports no problem, and a problem has a message."""
    problems = await trial.make().check(trial.target)
    assert not problems, f"it is not ready: {[problem.message for problem in problems]}"


async def _delivers(trial: _DeliveryTrial) -> None:
    """It delivers, and says where the work is."""
    found = await trial.make().deliver(trial.work)
    assert bool(found.words.strip()), "it does not say where the work is"
    assert found.head == trial.work.head, f"it says that {found.head!r} was delivered"


async def _finds_again(trial: _DeliveryTrial) -> None:
    """A second call for the same run, by another process, makes no second proposal."""
    first = await trial.make().deliver(trial.work)
    before = trial.count() if trial.count else 0
    second = await trial.make().deliver(trial.work)
    assert (first.number, first.url) == (second.number, second.url), "a second call finds something else"
    assert not trial.count or trial.count() == before, "there are two proposals now"


async def _refuses_the_base(trial: _DeliveryTrial) -> None:
    """The branch the work is meant for is never pushed, where there is a remote."""
    pushed: list[str] = []

    async def push() -> None:
        pushed.append(trial.target.base)

    delivery = trial.make()
    if delivery.needs_remote:
        with pytest.raises(SegueError):
            await delivery.deliver(replace(trial.work, branch=trial.target.base, push=push))
        assert not pushed, "it pushed the branch"
