"""What a prompt says beside the task to an agent that works on another machine and pushes by itself."""

from __future__ import annotations

from segue.domain.job import Prompt

_PUSH = """\
The repository is {repository}. Your platform leaves commits and branches to you, so this replaces what is \
said about them above:
- Start from {base}.
- Commit your work to the new branch `{branch}`, and push that branch to the same repository. Push nothing \
else, and never by force."""

_PUSH_MORE = """\
Your platform leaves commits and branches to you, so this replaces what is said about them above:
- Commit to branch `{branch}` again, and push it. Push nothing else, and never by force."""


def push_note(repository: str, base: str, branch: str) -> str:
    """Ask for the work on a new branch of the repository; without a base, from its default branch."""
    return _PUSH.format(
        repository=repository, base=f"branch `{base}`" if base else "the default branch", branch=branch
    )


def push_again_note(branch: str) -> str:
    """Ask for more work on the same branch."""
    return _PUSH_MORE.format(branch=branch)


def mark_prompt(prompt: Prompt, note: str, key: str) -> str:
    """Return the text to send: the prompt, a note about branches, and a last line to find it again by."""
    return "\n\n".join(filter(None, (prompt.text.rstrip(), note, make_mark(key)))) + "\n"


def make_mark(key: str) -> str:
    """Return the last line of a prompt, by which a launch is recognised."""
    return f"<!-- {key} -->"
