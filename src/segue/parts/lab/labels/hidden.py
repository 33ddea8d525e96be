"""Labels work by tests that nobody who took part has seen."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from segue.domain.errors import UsageError
from segue.domain.run import Run
from segue.domain.text import cut_text
from segue.parts.lab.labels.events import Label, LabelOrigin
from segue.parts.lab.labels.give import Labelled
from segue.proof.trees import list_tree, write_tree
from segue.runtime.app import App
from segue.runtime.wiring import command_runner
from segue.system.git.repository import Repository
from segue.system.process.processes import Processes

if TYPE_CHECKING:
    from segue.store.store import Store

_DONE = (
    "SELECT task, commit_id FROM segue_tasks WHERE run_id = ? AND state = 'done' AND commit_id IS NOT NULL"
)
_REASON = 200


async def run_hidden(app: App, store: Store, run: Run, task: str, command: Sequence[str]) -> list[Labelled]:
    """Run a command on the commit of each task that is done; what it says is the label."""
    works = [row for row in store.query(_DONE, [run.id]) if task in ("", row["task"])]
    if not works:
        raise UsageError(
            f"Run {run.id} has no {'task' if not task else f'task {task!r}'} that is done and committed.",
            kept="Nothing was changed.",
        )
    repo = await Repository.open(Path(run.spec.repo))
    ask = command_runner(
        app.services(Processes(), repo.root), app.loaded.settings.check_timeout, network=False
    )
    objects, found = repo.objects(), []
    with tempfile.TemporaryDirectory(prefix="segue-hidden-") as place:
        for number, row in enumerate(works):
            folder = Path(place).resolve() / str(number)
            await write_tree(objects, await list_tree(objects, row["commit_id"]), folder)
            code, said = await ask(command, folder)
            if code is None:
                raise UsageError(
                    f"{shlex.join(command)} could not be run: {said}", kept="Nothing was changed."
                )
            last = (said.strip().splitlines() or [""])[-1]
            reason = cut_text(f"exit code {code}: {last}", _REASON)
            label = Label(row["task"], code == 0, LabelOrigin.TESTS, shlex.join(command), reason)
            found.append(Labelled(run.id, label))
    return found
