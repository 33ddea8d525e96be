"""`segue try`: send one prompt to an agent in a throwaway repository."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import to_builtins

from segue.cli.options import FOLDER, CommandSettings, options
from segue.cli.terminal.output import Printer, clean

if TYPE_CHECKING:
    from segue.domain.events import Event
    from segue.domain.outcome import Usage
    from segue.runtime.try_agent import AgentTrial, AgentTrialResult


@click.command("try")
@click.argument("name")
@click.argument("prompt")
@click.option(
    "--mode",
    type=click.Choice(["edit", "plan", "ask"]),
    default="edit",
    show_default=True,
    help="What the agent may do: change files, plan, or answer.",
)
@click.option("--model", help="The model, as the agent names it (default: the agent's own).")
@click.option("--keep", "kept", metavar="DIR", type=FOLDER, help="Use this new folder and keep it.")
@options("repo", "config", "json", "color")
def try_(
    name: str,
    prompt: str,
    mode: str,
    model: str | None,
    kept: Path | None,
    settings: CommandSettings,
    output: Printer,
) -> int:
    """Send PROMPT to agent NAME in a throwaway git repository; `-` reads the prompt from stdin.

    Prints the events as they arrive, then the answer, the diff, the usage and the path of the raw output.
    The folder is deleted at the end unless the agent failed or --keep is given. Exits with 0 on success, 3
    if the agent failed, 4 if its key was rejected, 5 if it could not be started, 124 if it took too long.

    \b
    Examples:
      segue try claude "Write hello.py, a script that greets the world."
      segue try codex "How would you add tests here?" --mode plan
      segue try scripted "Anything" --keep /tmp/trial
    """
    import asyncio
    import shutil

    from segue.domain.job import Mode
    from segue.runtime.try_agent import AgentTrial, try_agent

    text = _read_prompt(prompt)
    app = settings.load()
    trial = AgentTrial(name, text, Mode(mode), model, _folder(kept))
    seen: list[Event] = []
    result: AgentTrialResult | None = None
    try:
        result = asyncio.run(try_agent(app, trial, _observer(output, seen)))
    finally:
        failed = result is None or result.failure is not None
        keep = kept is not None or (trial.stdout.exists() and failed)
        if not keep:
            shutil.rmtree(trial.folder, ignore_errors=True)
    if output.json:
        output.data(_data(trial, result, seen, keep))
    else:
        _print_result(output, trial, result, keep)
    return result.exit_code


def _read_prompt(prompt: str) -> str:
    from segue.domain.errors import UsageError

    asked = sys.stdin.buffer.read().decode("utf-8", "replace") if prompt == "-" else prompt
    if not asked.strip():
        raise UsageError("The prompt is empty.", hint='segue try NAME "Write hello.txt"')
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
            raise UsageError(f"{folder} is not empty.", hint="Choose a new folder with --keep")
    except OSError as error:
        raise WorkspaceError(
            f"{folder} cannot be used: {error}", hint="Choose another folder with --keep"
        ) from error
    return folder


def _observer(output: Printer, seen: list[Event]) -> Any:
    """Return a callback that prints each event, or with --json collects it."""
    import time

    from segue.cli.terminal.display import event_printer
    from segue.domain.events import Recorded

    show = event_printer(output, verbose=True)

    def see(event: Event) -> None:
        if output.json:
            seen.append(event)
        else:
            show(Recorded("try", 0, int(time.time() * 1000), None, event))

    return see


def _data(trial: AgentTrial, result: AgentTrialResult, seen: list[Event], keep: bool) -> dict[str, Any]:
    from segue.domain.events import event_data

    outcome = result.outcome
    return {
        "agent": trial.agent,
        "mode": trial.mode.value,
        "model": outcome.model,
        "ok": result.failure is None,
        "failure": to_builtins(result.failure) if result.failure else None,
        "exit_code": result.exit_code,
        "agent_exit_code": outcome.exit_code,
        "text": outcome.text,
        "diff": result.diff,
        "usage": to_builtins(outcome.usage) if outcome.usage else None,
        "session": outcome.session,
        "duration": round(outcome.duration, 3),
        "events": [{"type": event.type, "data": event_data(event)} for event in seen],
        "kept": str(trial.folder) if keep else None,
        "stdout": str(trial.stdout) if keep else None,
        "stderr": str(trial.stderr) if keep else None,
    }


def _print_result(output: Printer, trial: AgentTrial, result: AgentTrialResult, keep: bool) -> None:
    outcome, failure = result.outcome, result.failure
    if outcome.text.strip():
        output.text(f"{clean(outcome.text).strip()}\n")
    output.text(clean(result.diff) if result.diff else "No files were changed.\n")
    how = f"failed ({failure.kind}): {clean(failure.message)}" if failure else "succeeded"
    code = "" if outcome.exit_code is None else f", exit code {outcome.exit_code}"
    output.text(f"{trial.agent} {how}")
    output.text(f"  took   {outcome.duration:.1f} s{code}")
    output.text(f"  model  {clean(outcome.model or 'not reported')}")
    output.text(f"  usage  {_usage(outcome.usage)}")
    if keep:
        output.text(f"  kept   {trial.repo}")
        output.text(f"  raw    {trial.stdout}, {trial.stderr}")
    else:
        output.text("  raw    not kept; --keep DIR keeps it")


def _usage(usage: Usage | None) -> str:
    if usage is None:
        return "not reported"
    cost = "" if usage.cost_usd is None else f", ${usage.cost_usd:.4f}"
    return f"{usage.input_tokens} tokens in, {usage.output_tokens} out{cost}"
