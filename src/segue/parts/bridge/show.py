"""Show a conversation while it runs, and afterwards: shared by the commands of `segue bridge`."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from segue.cli.runs import moment
from segue.cli.terminal.display import event_printer
from segue.cli.terminal.log import open_log
from segue.cli.terminal.output import Printer, clean, error_text
from segue.domain.run import Run
from segue.parts.bridge.session import ConversationResult, run_conversation
from segue.runtime.app import App


def hold(app: App, run: Run, output: Printer, *, wait_reminders: bool = False, verbose: bool) -> int:
    """Run a conversation in this process and return the exit code."""
    return asyncio.run(converse(app, run, output, wait_reminders=wait_reminders, verbose=verbose))


async def converse(
    app: App, run: Run, output: Printer, *, wait_reminders: bool, verbose: bool = False
) -> int:
    """Run a conversation on the current event loop and return the exit code."""
    if output.json:
        output.record({"type": "launch", "schema": 1, "run": run.id, "pid": os.getpid()})
    with app.store() as store, open_log(app.loaded.settings.log) as logs:
        ended = await run_conversation(
            app, store, run, [event_printer(output, verbose), *logs], wait_reminders=wait_reminders
        )
    return _print_end(ended, output)


def _print_end(ended: ConversationResult, output: Printer) -> int:
    code = ended.error.exit_code if ended.error else 0
    if output.json:
        facts = {"run": ended.run, "state": ended.state, "exit_code": code, "reminder": ended.reminder}
        output.record({"type": "done", **facts, "reply": ended.reply})
    if ended.error:
        output.warn(error_text(ended.error))
        return code
    output.text(clean(ended.reply))
    if ended.reminder is not None:
        due = moment(int(ended.reminder * 1000))
        output.note(f"The next reminder is due at {due}. To send it, run: segue bridge serve")
    return code


def print_conversation(data: dict[str, Any], output: Printer) -> None:
    """Print all messages, commands and results."""
    output.text(f"Conversation {data['id']}: {data['state']} · {data['agent']} · {data['repo']}")
    if data["note"]:
        output.text(data["note"])
    for turn in data["conversation"]:
        for who, text in (("user", turn["messages"]), ("bridge", turn["results"]), ("agent", turn["reply"])):
            if text:
                output.text(f"\n[{turn['turn']}] {who}:\n{clean(text)}")
        for command in turn["commands"]:
            status = (command["result"] or {}).get("status", "running")
            output.text(f"    → {status}: {clean(command['line'])}")
        for skipped in turn["skipped"]:
            output.text(f"    → skipped, {skipped['reason']}: {clean(skipped['text'])}")
