"""Proposes the work of a run as a pull request when a person asks for it."""

from __future__ import annotations

from msgspec.structs import replace

from segue.domain.delivery import Delivered
from segue.domain.errors import UsageError
from segue.domain.run import Run, RunState
from segue.runtime.app import App
from segue.runtime.delivering import Delivering, set_target
from segue.runtime.overrides import hold_run
from segue.system.git.worktree import Worktree
from segue.system.process.processes import Processes


async def propose(app: App, run: Run) -> Delivered:
    """Push the branch of a run that nobody works on and open a pull request; a draft while it is not done.

    The run continues as one that ends as this pull request.
    """
    if run.spec.worktree is None:
        raise UsageError(
            f"Run {run.id} works in your own work tree: it has no branch to propose.",
            kept="Nothing was changed.",
            hint="Start the next one with --pr",
        )
    own = App.load_for(run, command_line={**app.place(), "delivery": "pr"})
    async with hold_run(own, run) as held:
        tree = Worktree.of(held.home, run)
        assert tree is not None
        services = own.services(Processes(), held.home.root)
        spec, _ = await set_target(own, services, held.home, run.spec)
        with own.store(read_only=True) as store:
            delivering = Delivering(own, services, spec, tree, held.source, store, held.journal)
            if not await delivering.has_work():
                raise UsageError(
                    f"There is nothing to propose: branch {tree.branch} has nothing that {spec.into} lacks.",
                    kept="Nothing was changed.",
                )
            await held.journal.respec(replace(spec, settings={**spec.settings, "delivery": "pr"}))
            found = await delivering.deliver(delivering.delivery, _explain_draft(run))
        if run.state is RunState.DONE:
            await tree.remove()
    return found


def _explain_draft(run: Run) -> str:
    """Say why the work is not ready; empty: it is."""
    return "" if run.state is RunState.DONE else run.note or "The run is not done yet."
