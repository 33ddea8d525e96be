"""`segue bridge`: run the commands that an agent prints."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import click

from segue.cli.options import PORT, CommandSettings, options
from segue.cli.runs import moment
from segue.cli.terminal.display import event_printer
from segue.cli.terminal.log import open_log
from segue.cli.terminal.output import Printer, clean, error_text
from segue.cli.terminal.readers import outlive_readers
from segue.domain.run import Run
from segue.features.bridge.session import ConversationResult, run_conversation
from segue.runtime.app import App


@click.group()
def bridge() -> None:
    """Run the commands that an agent prints, and send it the results.

    An agent without keys prints lines such as `SUBAGENT: repo=…, prompt=…`. The bridge has the keys: it
    launches subagents, calls the relay and sends reminders. See `docs/guides/bridge.md`.

    \b
    Examples:
      segue bridge run --agent claude --repo ~/agent-env "What is on today?"
      segue bridge list
    """


@bridge.command()
@click.argument("message")
@click.option("--agent", help="The agent to talk to: see `segue doctor --agents`.")
@click.option(
    "-C", "--repo", metavar="PLACE", help="The agent's hosted repository or folder (default: here)."
)
@click.option("--model", help="The model to use.")
@click.option("--wait/--no-wait", default=None, help="Wait for all subagents before replying.")
@click.option("--wait-reminders", is_flag=True, help="Keep running until the last reminder is sent.")
@click.option("--new", is_flag=True, help="Start a new conversation even if the same one is unfinished.")
@options("verbose", "config", "database", "json", "quiet", "color")
def run(
    message: str,
    repo: str | None,
    wait: bool | None,
    wait_reminders: bool,
    new: bool,
    verbose: bool,
    settings: CommandSettings,
    output: Printer,
) -> int:
    """Send MESSAGE to an agent and run the commands it prints until it prints none.

    Run the same command again to continue a conversation that did not finish; nothing is launched twice.

    \b
    Examples:
      segue bridge run --agent cursor-cloud --repo github.com/me/agent-env "Update all my apps"
      segue bridge run --agent claude --repo ~/agent-env "What is on today?" --wait-reminders
    """
    from segue.features.bridge.conversations import begin_conversation, resolve_repo
    from segue.runtime.plan import agent_text

    app = settings.load(bridge={"wait": wait})
    where = resolve_repo(repo or str(app.repo))
    with app.store() as store:
        conversation, fresh = begin_conversation(store, app, agent_text(app), where, message, force_new=new)
    if not fresh:
        output.note(f"Conversation {conversation.id} did not finish; continuing it.")
    return hold(app, conversation, output, wait_reminders=wait_reminders, verbose=verbose)


@bridge.command()
@click.argument("run_id", metavar="ID")
@click.option("--message", help="Send this message first.")
@click.option("--wait-reminders", is_flag=True, help="Keep running until the last reminder is sent.")
@options("verbose", "config", "database", "json", "quiet", "color")
def resume(
    run_id: str,
    message: str | None,
    wait_reminders: bool,
    verbose: bool,
    settings: CommandSettings,
    output: Printer,
) -> int:
    """Continue conversation ID (`last` for the newest), for example after a crash or with a new message.

    \b
    Examples:
      segue bridge resume last
      segue bridge resume 20261115-0219 --message "Now do the same for the other one"
    """
    from segue.features.bridge.conversations import find_conversation

    with settings.load().store(read_only=True) as store:
        conversation = find_conversation(store, run_id)
    app = settings.load_for(conversation)
    if message is not None:
        with app.store() as store:
            store.send(conversation.id, "message", {"kind": "message", "text": message})
    return hold(app, conversation, output, wait_reminders=wait_reminders, verbose=verbose)


@bridge.command("list")
@click.option("-n", "--limit", default=20, show_default=True, help="How many conversations to list.")
@options("config", "database", "json", "color")
def list_(limit: int, settings: CommandSettings, output: Printer) -> None:
    """List the conversations, newest first.

    \b
    Examples:
      segue bridge list
      segue bridge list --json
    """
    from segue.cli.runs import moment
    from segue.cli.terminal.output import one_line
    from segue.features.bridge.conversations import list_conversations, summarise

    with settings.look().store(read_only=True) as store:
        found = [summarise(store, run) for run in list_conversations(store, limit)]
    columns = ["id", "state", "agent", "turns", "launches", "started", "message"]
    rows = [
        [*(c[name] for name in columns[:5]), moment(c["created"]), one_line(c["message"], 60)] for c in found
    ]
    output.listing(found, columns, rows)


@bridge.command()
@click.argument("run_id", metavar="ID")
@options("config", "database", "json", "color")
def show(run_id: str, settings: CommandSettings, output: Printer) -> None:
    """Show the messages and commands of conversation ID (`last` for the newest).

    \b
    Examples:
      segue bridge show last
      segue bridge show 20261115-0219 --json
    """
    from segue.features.bridge.conversations import describe, find_conversation

    with settings.look().store(read_only=True) as store:
        data = describe(store, find_conversation(store, run_id))
    if output.json:
        output.data(data)
    else:
        print_conversation(data, output)


@bridge.command()
def protocol() -> None:
    """Print the protocol, for the instructions of an agent.

    \b
    Examples:
      segue bridge protocol >> ~/agent-env/AGENTS.md
    """
    from segue.features.bridge.prompts import PROTOCOL

    click.echo(f"## Commands of the bridge\n\n{PROTOCOL}")


@bridge.command()
@click.option("--host", "listen", help="The address to listen on (default: 127.0.0.1).")
@click.option("--port", type=PORT, help="The port; 0 picks a free one.")
@click.option("--agent", help="The agent for messages that name none.")
@click.option("-C", "--repo", metavar="PLACE", help="The repository for messages that name none.")
@options("config", "database", "json", "quiet")
def serve(
    listen: str | None, port: int | None, repo: str | None, settings: CommandSettings, output: Printer
) -> None:
    """Receive messages and webhooks over HTTP; continue all conversations and reminders.

    Every request needs the token, which is never printed: see `token` in `docs/guides/bridge.md`.

    \b
    Examples:
      segue bridge serve --agent cursor-cloud --repo github.com/me/agent-env
      segue bridge serve --port 0 --json
    """
    import asyncio

    from segue.features.bridge.serve import serve as serve_bridge

    app = settings.load(bridge={"listen": listen, "port": port})

    def announce(url: str, token_file: str) -> None:
        if output.json:
            output.record({"type": "launch", "url": url, "token_file": token_file})
        else:
            output.text(f"listening on {url}")
            output.note(f"Token: {token_file}   Stop with Ctrl-C.")

    asyncio.run(serve_bridge(app, repo, announce))


@outlive_readers()
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
