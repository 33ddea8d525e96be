"""`segue rehearse`: see what a run would do, with simulated agents in a throw-away clone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from segue.cli.options import CommandSettings, options
from segue.cli.run.choose import agent_settings, choice_options, name_options
from segue.cli.terminal.output import Printer

if TYPE_CHECKING:
    from segue.runtime.app import App
    from segue.runtime.task_choice import TaskChoice

_SHOWING = ("as_json", "quiet", "verbose", "color")


@click.command()
@click.argument("source", required=False)
@choice_options
@options("trust", "verbose", "new_repo", "config", "json", "quiet", "color")
def rehearse(
    source: str | None,
    agents: tuple[str, ...],
    only: tuple[str, ...],
    start: str | None,
    stories: tuple[str, ...],
    verbose: bool,
    settings: CommandSettings,
    output: Printer,
) -> int:
    """Rehearse SOURCE: everything `segue run` would do, with simulated agents, and nothing is kept.

    SOURCE is a plan, a Spec Kit feature, a table or a sentence, as it is in your work tree, committed or not.
    Segue clones the repository into a temporary folder and runs the tasks there with a database of its own;
    a simulated agent writes a note for each task, and your checks run for real. Then the clone is removed:
    no commit, no branch, no mark and no row is left. The last line is the command for the real run.

    Sources on a service, such as `github:`, cannot be rehearsed; `segue run SOURCE --dry-run` prints prompts.

    \b
    Examples:
      segue rehearse plan.md
      segue rehearse plan.md --jobs 3 --task 1 --task 2
      segue rehearse specs/001-login --agent claude --agent plan=codex
      segue rehearse "Build a todo app" --repo todo
    """
    import asyncio

    from segue.cli.run.first import find_source
    from segue.runtime.first_run import needs_source
    from segue.runtime.task_choice import TaskChoice

    app = settings.load(**agent_settings(agents))
    words = name_options(*_SHOWING)
    if needs_source(app, source):
        source = find_source(app, output if output.at_terminal() else None)
        words.insert(0, source)
    chosen = TaskChoice(only, start, stories)
    return asyncio.run(_rehearse(app, source, chosen, words, output, verbose))


async def _rehearse(
    app: App,
    named: str | None,
    chosen: TaskChoice,
    words: list[str],
    output: Printer,
    verbose: bool,
) -> int:
    from segue.cli.run.rehearsed import Rehearsed, print_rehearsal
    from segue.cli.run.session import report_nothing, watch_session
    from segue.domain.errors import Interrupted
    from segue.runtime.open import open_run
    from segue.runtime.rehearsal import rehearse as prepare

    async with prepare(app, named, chosen) as rehearsal:
        if rehearsal is None:
            return report_nothing(output)
        kind = rehearsal.real.source.kind
        output.note("A rehearsal in a throw-away clone, with simulated agents.")
        async with open_run(rehearsal.app, rehearsal.named, rehearsal.chosen, kind) as opened:
            assert opened is not None
            if opened.plan.listing.read_as:
                output.note(opened.plan.listing.read_as)
            ended = await watch_session(opened, output, verbose, is_saved=False)
        if isinstance(ended.error, Interrupted):
            raise Interrupted("The rehearsal was stopped.", kept="Nothing of it is left.")
        seen = Rehearsed.of(rehearsal, ended)
    print_rehearsal(seen, ["segue", "run", *words], output)
    return ended.exit_code
