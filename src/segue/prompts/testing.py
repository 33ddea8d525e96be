"""The prompt of somebody who writes tests for a task without seeing how it is done."""

from __future__ import annotations

from collections.abc import Sequence

from segue.domain.job import Prompt
from segue.domain.task import Task
from segue.prompts.assemble import assemble, criterion_text, task_text

_WRITE_TESTS = """\
You are in a git repository, in the current working directory, as it was before the task between the task \
markers below. Somebody else does the task; you do not see how. Write tests that tell from outside whether \
what the task asks for is done.

- Write tests only, in new files, where and as the project has its tests. Everything else you change is lost.
- Test what the task and its criteria say, nothing more: behaviour that others can see, not how it is done. \
Where they leave something open, do not test it.
- Use the names that the task gives, and the public names that exist. Do not guess others.
- Each test must fail now, because something is missing, and pass once the task is done.
- Leave out tests that need the network, other services, or a certain time.
- Do not do the task. Do not commit.
- Nobody can answer questions. Finish with one sentence about what you tested."""


def independent_prompt(
    task: Task,
    context: str,
    interface: str,
    commands: Sequence[str],
    feedback: str | None = None,
    nonce: str | None = None,
) -> Prompt:
    """Ask for tests of a task, by its text and criteria alone."""
    blocks = {
        "task": task_text(task),
        "criteria": "\n".join(f"- {criterion_text(criterion, task)}" for criterion in task.criteria),
        "interface": interface,
        "commands": "\n".join(commands),
        "context": context,
        "feedback": feedback,
    }
    return assemble(_WRITE_TESTS, blocks, nonce)
