"""Deliveries that need no service: keep the branch of a run, push it, or merge it."""

from __future__ import annotations

from segue.domain import options
from segue.domain.delivery import Delivered
from segue.ports import Delivery, Handover
from segue.system.services import Services


class BranchOptions(options.Options, frozen=True):
    """The table `[deliveries.branch]`."""

    push_options: tuple[options.Text, ...] = ()
    """Push the branch to `origin` with these options for the server, as `git push -o` does: GitLab opens a
    merge request on `merge_request.create`."""


class BranchDelivery(Delivery):
    """Leaves the work on the run's own branch; pushes that where there are options for the server."""

    Options = BranchOptions
    name = "branch"
    leaves = True

    def __init__(self, given: BranchOptions, services: Services) -> None:  # noqa: ARG002 - it needs none
        self._push_options = given.push_options

    @property
    def needs_remote(self) -> bool:
        """Whether there are options to push with."""
        return bool(self._push_options)

    async def deliver(self, work: Handover) -> Delivered:
        """Say where the work is."""
        words = f"The work is on branch {work.branch}. Merge it with: git merge {work.branch}"
        if self._push_options:
            await work.push(self._push_options)
            words = f"The work is on branch {work.branch}, which is pushed."
        return Delivered(words=words, kind=self.name, head=work.head, branch=work.branch)


class MergeDelivery(Delivery):
    """Merges the branch of a run into the user's, if there is no conflict."""

    Options = options.Options
    name = "merge"
    merges = True

    def __init__(self, given: options.Options, services: Services) -> None:
        pass

    async def deliver(self, work: Handover) -> Delivered:
        """Merge, or say why that was not possible; the branch stays then."""
        refused = await work.merge()
        words = f"The work was merged into {work.target.base}."
        if refused:
            how = f"Merge it with: git merge {work.branch}"
            words = f"The work is on branch {work.branch}. It was not merged: {refused}. {how}"
        return Delivered(words=words, merged=not refused, kind=self.name, head=work.head, branch=work.branch)
