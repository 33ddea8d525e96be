"""The prompts that turn one sentence into a plan, and revise the plan after a step.

They describe the form of a plan, never its content: the point is to measure what an agent knows.
"""

from __future__ import annotations

from collections.abc import Sequence

from segue.domain.job import Prompt
from segue.domain.plan import MOST_STEPS, BuildPhase
from segue.domain.task import Task
from segue.prompts.assemble import assemble

_FORM = f"""\
Answer with one JSON object and nothing else:
{{"steps": [{{"id": "1", "title": "…", "description": "…", "build_phase": "…", "kind": "…", \
"acceptance": ["…"], "depends_on": []}}]}}

- At most {MOST_STEPS} steps, in the order in which they are executed. Each is one piece of work that an \
agent can finish and that can be checked on its own.
- "build_phase" is one of {", ".join(BuildPhase)}.
- "kind" says what the step asks for: build (most steps do), test-first (write tests that fail until a later \
step), verify-only (run something and report the result), docs (documentation or settings only) or human (a \
person must do or decide it).
- "description" says what must exist afterwards. The agent that executes the step sees it, the goal and the \
titles of the other steps.
- "acceptance" lists statements that can be checked when the step is done.
- "depends_on" lists the ids of the steps that must be done first."""

_PLAN = f"""\
You are in a git repository, in the current working directory; it may be empty. Write a step-by-step plan \
for building what is described between the goal markers below.

- Change nothing: no file, no commit, no branch.
- Nobody can answer questions. Where the goal leaves a choice open, choose the simplest option and say so \
in the step.

{_FORM}"""

_REPLAN = f"""\
You are in a git repository in which a plan is being executed; the goal, the finished steps and the \
remaining steps are between markers below. Decide whether the remaining steps still fit, and answer with all \
steps that remain to be done.

- Change nothing: no file, no commit, no branch.
- Finished steps cannot change: do not list them.
- A step that was skipped or failed is not done. If something still needs it, plan it again as a new step.
- List a step that stays the same as {{"keep": "KEY"}}. A step that you do not list is dropped. If nothing \
needs to change, keep every step.

{_FORM}"""


def outline_prompt(
    goal: str,
    complaint: str | None = None,
    nonce: str | None = None,
    draft: Sequence[Task] = (),
    comments: Sequence[str] = (),
) -> Prompt:
    """Ask for a plan; for another one, with the user's comments on the draft."""
    blocks = {
        "goal": goal,
        "draft": "\n\n".join(map(_describe_step, draft)),
        "comments": "\n\n".join(comments),
        "complaint": complaint,
    }
    return assemble(_PLAN, blocks, nonce)


def replan_prompt(
    goal: str,
    done: Sequence[Task],
    undone: Sequence[str],
    rest: Sequence[Task],
    reason: str,
    complaint: str | None = None,
    nonce: str | None = None,
) -> Prompt:
    """Ask whether the remaining steps still fit; `undone` describes those that were skipped or failed."""
    blocks = {
        "goal": goal,
        "done": "\n".join(f"- {task.title} ({task.build_phase})" for task in done) or "(none)",
        "undone": "\n".join(f"- {words}" for words in undone),
        "rest": "\n\n".join(map(_describe_step, rest)) or "(none)",
        "reason": reason,
        "complaint": complaint,
    }
    return assemble(_REPLAN, blocks, nonce)


def _describe_step(task: Task) -> str:
    accepted = "".join(f"\n- {criterion.text}" for criterion in task.criteria)
    return f"{task.key}: {task.title} ({task.build_phase})\n{task.text}{accepted}"
