"""The prompts of a conversation with an agent that may print commands, and of the subagents it asks for."""

from __future__ import annotations

from collections.abc import Sequence

from segue.domain.prompt import Prompt
from segue.prompts.assemble import assembled, house_rules

PROTOCOL = """\
You have no keys and no access to other repositories or to the user's machine. To have something done \
there, print a command: a line that starts with one of these keywords, one command per line, not \
indented, outside of code fences. Everything on the line belongs to it.

    SUBAGENT: repo=<address>, prompt=<task>
Launches an agent on another repository. The prompt stands alone, on one line, and comes last. Before it \
there may be branch=<where to start>, agent=<name>, model=<name>, wait=<true|false>.

    LOCAL_ACTION: <action>, <name>=<value>, ...
Has one of the user's own actions run on their machine, if the user has named it. Parameters are optional.

    REMIND: <when>, <message>
Sends you the message at that time: an instant with its zone (2030-01-31T09:00:00Z), `in 30m`, `1h30m`, \
`tomorrow 9:00`.

What comes of your commands is sent to you as WEBHOOK_RESULT lines, with what was printed below them. To \
see all that a subagent said, print WEBHOOK_RESULT: agent_id=<id>, status=summary. When nothing is left to \
be done, answer without a command: that ends the conversation."""

_FIRST = """\
You hold a conversation with a user through a bridge that carries out commands for you.

{protocol}
{more}
The message to answer stands between the message markers below."""

_FOLLOW_UP = """\
The bridge has carried out what you asked for, or has heard something new. It stands between the markers \
below. Go on: print further commands at the start of a line, or answer without one when nothing is left to \
be done."""

_AGAIN = """\
{protocol}
{more}
You hold a conversation with a user through a bridge that carries out commands for you. You do not \
remember it: what was said so far stands between the conversation markers below, and what is new after it."""

_SUBAGENT = """\
You are working in a git repository. Do the task that stands between the task markers below, completely.

- Change only what the task needs, and only inside the repository.
{rules}
- Nobody can answer questions. Where the task leaves a choice open, take the plainest one.
- Finish with one paragraph: what you changed, what you checked, and what is left to do, if anything."""


def conversation_prompt(
    messages: str,
    results: str,
    *,
    first: bool,
    so_far: str = "",
    repos: Sequence[str] = (),
    keywords: Sequence[str] = (),
    nonce: str | None = None,
) -> Prompt:
    """What is new, for the agent that holds the conversation; `so_far` for one that cannot remember."""
    more = _more(repos, keywords)
    if first:
        instructions = _FIRST.format(protocol=PROTOCOL, more=more)
    elif so_far:
        instructions = _AGAIN.format(protocol=PROTOCOL, more=more)
    else:
        instructions = _FOLLOW_UP
    blocks = {"conversation": so_far, "message": messages, "results": results}
    return assembled(instructions, blocks, nonce)


def subagent_prompt(task: str, cloud: bool, nonce: str | None = None) -> Prompt:
    """Ask a subagent for what a SUBAGENT line says."""
    return assembled(_SUBAGENT.format(rules=house_rules(cloud)), {"task": task}, nonce)


def _more(repos: Sequence[str], keywords: Sequence[str]) -> str:
    lines = [f"\nRepositories that SUBAGENT may name: {', '.join(repos) or 'none'}."]
    lines += [f"{word}: <a JSON object>   is a further command." for word in keywords]
    return "\n".join(lines) + "\n"
