"""The prompt of an address round: exactly what the reviewer found, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from segue.domain.finding import Finding
from segue.domain.prompt import Prompt
from segue.domain.task import Task
from segue.prompts.assemble import assembled, house_rules, task_text

_INSTRUCTIONS = """\
You are working in a git repository, in the current working directory. The task between the task markers \
below has been implemented and reviewed. Address the findings of the review: apply fixes and run tests.

- Address every finding. If one is wrong, leave the code as it is and say why in your last paragraph.
- Change only what the findings need, and only inside the current working directory.
{rules}
- Nobody can answer questions.
- Finish with one paragraph: which findings you addressed and how."""

_MOST = 100


def address_prompt(
    task: Task,
    findings: Sequence[Finding],
    feedback: str | None = None,
    nonce: str | None = None,
    cloud: bool = False,
) -> Prompt:
    """Ask to address the findings."""
    listed = "\n\n".join(_described(finding) for finding in findings[:_MOST])
    if len(findings) > _MOST:
        listed += f"\n\n({len(findings) - _MOST} further findings follow in the next round.)"
    blocks = {"task": task_text(task), "findings": listed, "feedback": feedback}
    return assembled(_INSTRUCTIONS.format(rules=house_rules(cloud)), blocks, nonce)


def _described(finding: Finding) -> str:
    place = f"{finding.file}:{finding.line}" if finding.line else finding.file
    text = f"- {place} [{finding.severity}, {finding.rule}] {finding.message}"
    return f"{text}\n  Suggestion: {finding.suggestion}" if finding.suggestion else text
