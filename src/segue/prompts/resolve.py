"""The prompt of a resolution: exactly what is missing, and the requirements once more."""

from __future__ import annotations

from segue.domain.prompt import Prompt
from segue.domain.task import Task
from segue.domain.verdict import Verdict
from segue.prompts.assemble import assembled, house_rules, task_text

_INSTRUCTIONS = """\
You have worked on the task between the task markers below. It was checked, and not everything that must \
hold does. Build on what is there: mend exactly what is missing, on the same branch.

- Every criterion that is listed as not met must hold afterwards. Those that are met must stay so.
- Change only what that needs, and only inside the repository.
{rules}
- If the project has tests, run those that concern your change, and mend what you broke.
- Nobody can answer questions.
- Finish with one paragraph: what you changed for each criterion."""


def resolve_prompt(
    task: Task,
    context: str,
    verdict: Verdict,
    feedback: str | None = None,
    nonce: str | None = None,
    cloud: bool = False,
    notes: str | None = None,
) -> Prompt:
    """Ask to mend what is missing; `notes` is what a search or a diagnostic has brought to light."""
    blocks = {"missing": _report(task, verdict), "notes": notes, "task": task_text(task), "context": context}
    instructions = _INSTRUCTIONS.format(rules=house_rules(cloud))
    return assembled(instructions, {**blocks, "feedback": feedback}, nonce)


def _report(task: Task, verdict: Verdict) -> str:
    """The difference between what must hold and what was found, criterion by criterion."""
    texts = {criterion.key: criterion.text for criterion in task.criteria}
    lines = []
    for found in sorted(verdict.criteria, key=lambda criterion: criterion.met):
        state = "met" if found.met else "NOT MET"
        lines.append(f"- {found.key}: {state}. {texts.get(found.key, '')}".rstrip())
        if not found.met and found.evidence:
            lines.append(f"  What was seen: {found.evidence}")
    return "\n".join([*lines, "", verdict.reason]).strip()
