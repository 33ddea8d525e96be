"""`segue agent try`: one prompt in a throw-away repository."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from segue.cli.options import make_output, options
from segue.cli.output import Output, clean

if TYPE_CHECKING:
    from segue.domain.event import Event
    from segue.domain.outcome import Usage
    from segue.runtime.try_agent import Trial, Tried


@click.command("try")
@click.argument("name")
@click.argument("prompt")
@click.option(
    "--mode",
    type=click.Choice(["edit", "plan", "ask"]),
    default="edit",
    show_default=True,
    help="What the agent may do: change files, only plan, only answer.",
)
@click.option("--model", default=None, help="The model, in the agent's own words (default: the agent's).")
@click.option(
    "--keep",
    "kept",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    help="Work in this new folder, and leave it.",
)
@options("repo", "config", "json", "color")
def try_(
    name: str,
    prompt: str,
    mode: str,
    model: str | None,
    kept: Path | None,
    repo: Path | None,
    config_file: Path | None,
    as_json: bool,
    color: str,
) -> int:
    """Send PROMPT to agent NAME, in a throw-away git repository; `-` reads it from stdin.

    Shows the events as they come, then the answer, the diff, the usage and where the raw output is. The
    folder goes at the end, unless the agent failed or --keep names one. Ends with 0, or 3 when the agent
    failed, 4 when its key was refused, 5 when it could not be started, 124 when it took too long.

    \b
    Examples:
      segue agent try claude "Write hello.py, which greets the world."
      segue agent try codex "How would you add tests here?" --mode plan
      segue agent try scripted "Anything" --keep /tmp/trial
    """
    import asyncio
    import shutil

    from segue.domain.job import Mode
    from segue.runtime.try_agent import Trial, try_out
    from segue.runtime.wiring import App

    output = make_output(as_json, color=color)
    asked = _asked(prompt)
    app = App.load(repo, config_file)
    trial = Trial(name, asked, Mode(mode), model, _folder(kept))
    seen: list[Event] = []
    tried: Tried | None = None
    try:
        tried = asyncio.run(try_out(app, trial, _observer(output, seen)))
    finally:
        stays = kept is not None or (trial.stdout.exists() and (tried is None or tried.failure is not None))
        if not stays:
            shutil.rmtree(trial.folder, ignore_errors=True)
    if as_json:
        output.data(_data(trial, tried, seen, stays))
    else:
        _show(output, trial, tried, stays)
    return tried.exit_code


def _asked(prompt: str) -> str:
    from segue.domain.errors import UsageError

    asked = sys.stdin.buffer.read().decode("utf-8", "replace") if prompt == "-" else prompt
    if not asked.strip():
        raise UsageError("The prompt is empty.", hint='segue agent try NAME "Write hello.txt"')
    return asked


def _folder(kept: Path | None) -> Path:
    import tempfile

    from segue.domain.errors import UsageError, WorkspaceError

    if kept is None:
        return Path(tempfile.mkdtemp(prefix="segue-try-")).resolve()
    folder = kept.absolute()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UsageError(f"{folder} is not empty.", hint="Name a new folder with --keep")
    except OSError as error:
        raise WorkspaceError(f"{folder} cannot be used: {error}", hint="Name another with --keep") from error
    return folder


def _observer(output: Output, seen: list[Event]) -> Any:
    """Shows each event to people at once; programs get all of them at the end."""
    import time

    from segue.cli.display import Lines
    from segue.domain.event import Recorded

    lines = Lines(verbose=True)

    def see(event: Event) -> None:
        if output.json:
            seen.append(event)
        else:
            lines(Recorded("try", 0, int(time.time() * 1000), None, event.type, event.data))

    return see


def _data(trial: Trial, tried: Tried, seen: list[Event], stays: bool) -> dict[str, Any]:
    outcome = tried.outcome
    return {
        "agent": trial.agent,
        "mode": trial.mode.value,
        "model": outcome.model,
        "ok": tried.failure is None,
        "failure": asdict(tried.failure) if tried.failure else None,
        "exit_code": tried.exit_code,
        "agent_exit_code": outcome.exit_code,
        "text": outcome.text,
        "diff": tried.diff,
        "usage": asdict(outcome.usage) if outcome.usage else None,
        "session": outcome.session,
        "duration": round(outcome.duration, 3),
        "events": [{"type": event.type, "data": dict(event.data)} for event in seen],
        "kept": str(trial.folder) if stays else None,
        "stdout": str(trial.stdout) if stays else None,
        "stderr": str(trial.stderr) if stays else None,
    }


def _show(output: Output, trial: Trial, tried: Tried, stays: bool) -> None:
    outcome, failure = tried.outcome, tried.failure
    if outcome.text.strip():
        output.text(f"{clean(outcome.text).strip()}\n")
    output.text(clean(tried.diff) if tried.diff else "Nothing was changed.\n")
    how = f"failed ({failure.kind}): {clean(failure.message)}" if failure else "ended well"
    code = "" if outcome.exit_code is None else f", exit code {outcome.exit_code}"
    output.text(f"{trial.agent} {how}")
    output.text(f"  took   {outcome.duration:.1f} s{code}")
    output.text(f"  model  {clean(outcome.model or 'not said')}")
    output.text(f"  usage  {_used(outcome.usage)}")
    if stays:
        output.text(f"  kept   {trial.repo}")
        output.text(f"  raw    {trial.stdout}, {trial.stderr}")
    else:
        output.text("  raw    not kept; --keep DIR keeps it")


def _used(usage: Usage | None) -> str:
    if usage is None:
        return "not reported"
    cost = f", ${usage.cost_usd:.4f}" if usage.cost_usd else ""
    return f"{usage.input_tokens} tokens in, {usage.output_tokens} out{cost}"
