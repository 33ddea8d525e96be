"""The prompt of the execute phase: do this task, here, and leave the commit to Segue."""

from __future__ import annotations

from segue.domain.prompt import Prompt
from segue.domain.task import Task
from segue.prompts.assemble import assembled, house_rules, task_text

_INSTRUCTIONS = """\
You are working in a git repository, in the current working directory. Do the task that stands \
between the task markers below, completely.

- Change only what the task needs, and only inside the current working directory.
{rules}
- If the project has tests, run those that concern your change, and mend what you broke.
- Nobody can answer questions. Where the task leaves a choice open, take the plainest one.
- Finish with one paragraph: what you changed, what you checked, and what is left to do, if anything."""

_WITH_PLAN = """
- A plan has been made already. Do not plan again; only implement it and test."""


def execute_prompt(
    task: Task,
    context: str,
    plan: str | None = None,
    feedback: str | None = None,
    base: str | None = None,
    nonce: str | None = None,
    cloud: bool = False,
) -> Prompt:
    """Ask for one task."""
    blocks = {"task": task_text(task), "context": context, "plan": plan, "feedback": feedback, "base": base}
    instructions = _INSTRUCTIONS.format(rules=house_rules(cloud)) + (_WITH_PLAN if plan else "")
    return assembled(instructions, blocks, nonce)
