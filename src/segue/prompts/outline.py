"""The prompts that make a plan out of one sentence, and look at it again after a step.

They say what form a plan has, never what should stand in it: what is measured is what an agent knows.
"""

from __future__ import annotations

from collections.abc import Sequence

from segue.domain.plan import MOST_STEPS, BuildPhase
from segue.domain.prompt import Prompt
from segue.domain.task import Task
from segue.prompts.assemble import assembled

_FORM = f"""\
Answer with one JSON object and nothing else:
{{"steps": [{{"id": "1", "title": "…", "description": "…", "build_phase": "…", "acceptance": ["…"], \
"depends_on": []}}]}}

- At most {MOST_STEPS} steps, in the order in which they are carried out. Each is one piece of work that an \
agent can finish and that can be checked by itself.
- "build_phase" is one of {", ".join(BuildPhase)}.
- "description" says what must be there afterwards. Whoever carries the step out sees it, the goal and the \
titles of the other steps.
- "acceptance" lists what can be checked when the step is done, one statement each.
- "depends_on" lists the ids of steps that must be done before."""

_PLAN = f"""\
You are looking at a git repository, in the current working directory; it may be empty. Make a plan for \
building what stands between the goal markers below, step by step.

- Change nothing: no file, no commit, no branch.
- Nobody can answer questions. Where the goal leaves a choice open, take the plainest one and say so in the \
step.

{_FORM}"""

_REPLAN = f"""\
You are looking at a git repository in which a plan is being carried out; the goal, the steps that are done \
and those that remain stand between markers below. Decide whether the remaining steps still fit what is \
there, and answer with all steps that remain.

- Change nothing: no file, no commit, no branch.
- The steps that are done stay as they are: do not list them.
- A step that stays as it is is listed as {{"keep": "KEY"}}. A step that is not listed is dropped. If \
nothing needs to change, keep every step.

{_FORM}"""


def outline_prompt(goal: str, complaint: str | None = None, nonce: str | None = None) -> Prompt:
    """Ask for a plan."""
    return assembled(_PLAN, {"goal": goal, "complaint": complaint}, nonce)


def replan_prompt(
    goal: str,
    done: Sequence[Task],
    rest: Sequence[Task],
    reason: str,
    complaint: str | None = None,
    nonce: str | None = None,
) -> Prompt:
    """Ask whether the remaining steps still fit."""
    blocks = {
        "goal": goal,
        "done": "\n".join(f"- {task.title} ({task.build_phase})" for task in done) or "(none)",
        "rest": "\n\n".join(map(_step, rest)) or "(none)",
        "reason": reason,
        "complaint": complaint,
    }
    return assembled(_REPLAN, blocks, nonce)


def _step(task: Task) -> str:
    accepted = "".join(f"\n- {criterion.text}" for criterion in task.criteria)
    return f"{task.key}: {task.title} ({task.build_phase})\n{task.text}{accepted}"
