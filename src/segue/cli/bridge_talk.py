"""What the commands of `segue bridge` share: show a conversation while it goes on, and afterwards."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from segue.bridge.conversations import find_conversation
from segue.bridge.session import ConversationResult, run_conversation
from segue.cli.display import JsonLines, Lines, Silent
from segue.cli.log import structured
from segue.cli.output import Output, clean
from segue.cli.show import moment
from segue.domain.run import Run
from segue.runtime.wiring import App


def reopen(run_id: str, config: Path | None, settings: dict[str, Any]) -> tuple[App, Run]:
    """A conversation, with the settings that it was begun with."""
    with App.load(None, config, settings).store(read_only=True) as store:
        run = find_conversation(store, run_id)
    named = config or (Path(run.spec.config) if run.spec.config else None)
    return App.load(None, named, settings, stored=run.spec.settings), run


def talk(app: App, run: Run, output: Output, *, wait_reminders: bool, verbose: bool) -> int:
    """Carry a conversation on in this process and say how it ended."""
    return asyncio.run(talked(app, run, output, wait_reminders=wait_reminders, verbose=verbose))


async def talked(app: App, run: Run, output: Output, *, wait_reminders: bool, verbose: bool = False) -> int:
    """The same inside an event loop."""
    if output.json:
        output.record({"type": "launch", "schema": 1, "run": run.id, "pid": os.getpid()})
    display = JsonLines(output) if output.json else Silent() if output.quiet else Lines(verbose)
    with app.store() as store, structured(app.loaded.settings.log) as logs:
        ended = await run_conversation(app, store, run, [display, *logs], wait_reminders=wait_reminders)
    return _said(ended, output)


def _said(ended: ConversationResult, output: Output) -> int:
    code = ended.error.exit_code if ended.error else 0
    if output.json:
        facts = {"run": ended.run, "state": ended.state, "exit_code": code, "reminder": ended.reminder}
        output.record({"type": "done", **facts, "reply": ended.reply})
    if ended.error:
        from segue.cli.output import error_text

        output.warn(error_text(ended.error))
        return code
    output.text(clean(ended.reply))
    if ended.reminder is not None:
        due = moment(int(ended.reminder * 1000))
        output.note(f"The next reminder is due at {due}. It is sent by: segue bridge serve")
    return code


def print_conversation(data: dict[str, Any], output: Output) -> None:
    """Everything that was said and done, as people read it."""
    output.text(f"Conversation {data['id']}: {data['state']} · {data['agent']} · {data['repo']}")
    if data["note"]:
        output.text(data["note"])
    for turn in data["conversation"]:
        for who, text in (("user", turn["messages"]), ("bridge", turn["results"]), ("agent", turn["reply"])):
            if text:
                output.text(f"\n[{turn['turn']}] {who}:\n{clean(text)}")
        for command in turn["commands"]:
            status = (command["result"] or {}).get("status", "under way")
            output.text(f"    → {status}: {clean(command['line'])}")
        for skipped in turn["skipped"]:
            output.text(f"    → skipped, {skipped['reason']}: {clean(skipped['text'])}")
