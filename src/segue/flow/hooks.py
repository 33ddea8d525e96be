"""Hooks of a source, as commands of the user: once per run, before the first task and after the last one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from segue.domain.errors import NeedsHuman
from segue.domain.events import FinalCommandRun
from segue.domain.results import FinalOutput, StepResult
from segue.domain.run import StepState
from segue.domain.source import HookTime, SourceHook
from segue.domain.text import cut_tail
from segue.flow.final import RunHere
from segue.ports import Journal, StepFacts

_KEPT = 64 * 1024
_SHOWN = 500


async def run_hooks(
    journal: Journal,
    hooks: Sequence[SourceHook],
    commands: Mapping[str, Sequence[str]],
    when: HookTime,
    run: RunHere,
) -> None:
    """Run the commands for the hooks that are due; raises NeedsHuman when one fails."""
    for hook in hooks:
        if hook.when is when and hook.name in commands:
            await _run(journal, hook, commands[hook.name], run)


async def _run(journal: Journal, hook: SourceHook, argv: Sequence[str], run: RunHere) -> None:
    key = f"hook/{hook.when}/{hook.name}"
    if journal.state(key) is StepState.FAILED:
        await journal.redo(key)

    async def work(_token: str) -> StepResult[FinalOutput]:
        code, output = await run(argv)
        kept = cut_tail(output, _KEPT)
        await journal.emit(FinalCommandRun(f"hook {hook.name}", argv[0], code, len(output), kept), key)
        return StepResult(code == 0, FinalOutput(code, kept))

    result = await journal.step(key, FinalOutput, work, facts=StepFacts(phase=f"hook {hook.when}"))
    if not result.ok:
        code = result.output.exit_code
        ended = "could not be run" if code is None else f"ended with exit code {code}"
        said = result.output.output.strip()[-_SHOWN:]
        raise NeedsHuman(
            f"The hook {hook.name} {ended}: {' '.join(argv)}\n{said}".strip(),
            kept="What was done before it is kept.",
            hint=f"Fix it, then: segue resume {journal.run.id}",
        )
