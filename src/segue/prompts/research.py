"""The prompt of a search: find out what is documented, change nothing, name the sources."""

from __future__ import annotations

from segue.domain.prompt import Prompt
from segue.domain.task import Task
from segue.prompts.assemble import assembled, task_text

_INSTRUCTIONS = """\
Look up on the web what stands between the question markers below. It came up while the task was worked on. \
Your answer is given to the agent that goes on with it.

- Change nothing: no file, no commit, no branch.
- Prefer the documentation of the vendor or project itself. Report what it says, not what you remember.
- Name the address of every page you rely on, as a full URL.
- If nothing useful can be found, or you cannot search, say so.
- At most one page of text."""


def research_prompt(
    task: Task, question: str, feedback: str | None = None, nonce: str | None = None
) -> Prompt:
    """Ask to look something up."""
    return assembled(
        _INSTRUCTIONS, {"question": question, "task": task_text(task), "feedback": feedback}, nonce
    )
