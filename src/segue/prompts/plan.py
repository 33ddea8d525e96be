"""The prompt of the plan phase: think it through, change nothing."""

from __future__ import annotations

from segue.domain.prompt import Prompt
from segue.domain.task import Task
from segue.prompts.assemble import assembled, task_text

_INSTRUCTIONS = """\
You are looking at a git repository, in the current working directory. Create a plan for implementing \
the task that stands between the task markers below. Another agent, which sees only your plan and the \
task, will carry it out.

- Change nothing: no file, no commit, no branch.
- Read the code that the task concerns. Name the files to change and what changes in each.
- Say how the result is tested.
- Nobody can answer questions. Where the task leaves a choice open, take the plainest one and say so.
- Your answer is the plan itself, in Markdown, and nothing else."""


def plan_prompt(task: Task, context: str, feedback: str | None = None, nonce: str | None = None) -> Prompt:
    """Ask for a plan of one task."""
    blocks = {"task": task_text(task), "context": context, "feedback": feedback}
    return assembled(_INSTRUCTIONS, blocks, nonce)
