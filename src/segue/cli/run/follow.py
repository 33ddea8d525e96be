"""`segue follow`: work on what comes back from the pull request of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from segue.cli.options import CommandSettings, WholeNumber, options
from segue.cli.terminal.output import Printer, clean
from segue.cli.terminal.readers import outlive_readers
from segue.domain.amounts import format_count

if TYPE_CHECKING:
    from segue.domain.run import Run
    from segue.runtime.app import App
    from segue.runtime.pull_request import PullRequestStatus


@click.command()
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option("--once", is_flag=True, help="Look once, work on what is there, and end.")
@click.option(
    "--every",
    type=click.FloatRange(0.0),
    default=60.0,
    show_default=True,
    help="Seconds between two looks at it.",
)
@click.option("--rounds", type=WholeNumber(1), metavar="N", help="How often to send the agent back at most.")
@options("trust", "verbose", "repo", "config", "database", "json", "quiet", "color")
@outlive_readers()
def follow(
    run_id: str | None,
    once: bool,
    every: float,
    rounds: int | None,
    verbose: bool,
    settings: CommandSettings,
    output: Printer,
) -> int:
    """Watch the pull request of RUN, and let the agent work on what comes back.

    Failing CI, review comments and conflicts become tasks of the same run: done in the agent's last
    conversation where it can continue that, checked like all tasks, pushed, and answered in the thread. Ends
    when the pull request is merged, closed, or has nothing left to do.

    \b
    Examples:
      segue follow
      segue follow 20261115-0219 --every 120 --rounds 3
      segue follow last --once                       from cron, for example
    """
    import asyncio

    from msgspec.structs import replace

    from segue.cli.runs import find_run

    found = replace(settings.find(), tell=output.warn)
    with found.store(read_only=True) as store:
        run = find_run(store, found, run_id)
    app = replace(settings.load_for(run), tell=output.warn)
    most = rounds or app.loaded.settings.follow_rounds
    return asyncio.run(_follow(app, run, None if once else every, most, verbose, output))


async def _follow(app: App, run: Run, every: float | None, most: int, verbose: bool, output: Printer) -> int:
    import asyncio

    from segue.runtime.pull_request import Follower

    follower, said, pushed = Follower(app, run), "", False
    await follower.check()
    while True:
        seen = await follower.look()
        words = _describe(seen)
        if words != said:
            _tell(seen, words, output)
            said = words
        if seen.feedback.state != "open":
            return 0
        if seen.fresh or seen.unfinished:
            code = await _work(app, run, seen, most, verbose, output)
            if code != 0 or every is None:
                return code
            pushed = True
        elif seen.stuck and not seen.feedback.pending:
            raise _stuck(seen, run)
        elif every is None or (seen.is_quiet and not pushed):
            return 0
        else:
            pushed = False  # what was just pushed may not have reached CI yet: look once more
        await asyncio.sleep(every)


async def _work(
    app: App, run: Run, seen: PullRequestStatus, most: int, verbose: bool, output: Printer
) -> int:
    """Let the run work on what is new."""
    from segue.cli.run.session import show_session
    from segue.domain.errors import NeedsHuman
    from segue.runtime.open import reopen_run

    if seen.fresh and seen.rounds >= most:
        raise NeedsHuman(
            f"After {format_count(seen.rounds, 'round')} there is still something to do: "
            f"{'; '.join(item.title for item in seen.fresh[:5])}.",
            kept="Everything done so far is in the pull request.",
            hint=f"Allow more: segue follow {run.id} --rounds {most + 1}",
        )
    with app.store(read_only=True) as store:
        now = store.run(run.id) or run
    async with reopen_run(app, now, seen.fresh) as opened:
        ended = await show_session(opened, output, verbose)
    return ended.exit_code


def _stuck(seen: PullRequestStatus, run: Run) -> Exception:
    from segue.domain.errors import NeedsHuman

    titles = "; ".join(item.title for item in seen.stuck[:5])
    return NeedsHuman(
        f"The agent worked on this, but it is still open: {titles}.",
        kept="Everything done so far is in the pull request.",
        hint=f"Look at {seen.stuck[0].url or seen.delivered.url}, or at: segue logs {run.id}",
    )


def _describe(seen: PullRequestStatus) -> str:
    """Say what the look has shown, in one line."""
    feedback, delivered = seen.feedback, seen.delivered
    head = f"Pull request {delivered.number} ({delivered.url})"
    if feedback.state != "open":
        return f"{head} was {feedback.state}."
    parts = [f"to do: {'; '.join(item.title for item in seen.fresh)}"] if seen.fresh else []
    parts += ["continuing with what was not finished"] if seen.unfinished else []
    parts += [f"still there: {'; '.join(item.title for item in seen.stuck)}"] if seen.stuck else []
    parts += [f"waiting for: {', '.join(feedback.pending)}"] if feedback.pending else []
    parts = parts or ["nothing to do" if feedback.unreadable else "green, nothing to do"]
    parts += [feedback.unreadable] if feedback.unreadable else []
    return f"{head}: {'. '.join(parts)}."


def _tell(seen: PullRequestStatus, words: str, output: Printer) -> None:
    if output.json:
        feedback = seen.feedback
        output.record(
            {
                "type": "pull_request",
                "number": seen.delivered.number,
                "url": seen.delivered.url,
                "state": feedback.state,
                "fresh": [item.title for item in seen.fresh],
                "pending": list(feedback.pending),
                "unreadable": feedback.unreadable,
                "rounds": seen.rounds,
            }
        )
    output.text(clean(words))
    for sentence in seen.feedback.ignored:
        output.note(clean(sentence))
