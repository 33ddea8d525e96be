"""The prompt for work that comes back from a pull request: CI that fails, a review, a conflict."""

from __future__ import annotations

from segue.domain.delivery import FeedbackKind
from segue.domain.job import Prompt
from segue.domain.task import Task
from segue.prompts.assemble import assemble, house_rules
from segue.prompts.task import kind_rules

_HEAD = """\
You are working in a git repository, in the current working directory. The work on this branch was proposed \
as a pull request, and something came back: it is between the request markers below. {what}

- Change only what this needs, and only inside the current working directory.
{rules}
{kind}
- Nobody can answer questions. Where the request leaves a choice open, choose the simplest option.
- Finish with one paragraph: {last}"""

_CI = """\
CI has failed on this branch; you see the end of each log. Find the cause and fix it. Never make a job pass \
by weakening or skipping what it checks."""

_REVIEW = """\
A reviewer has commented. Do what the comment asks for, if it is about this work and right; if it is wrong, \
or a question, change nothing and answer it."""

_CONFLICT = """\
The branch that the work is for has changed meanwhile. It was merged into this one, and where both changed \
the same lines the files contain git's conflict markers: lines between `<<<<<<<` and `=======` are this \
branch's, those up to `>>>>>>>` are the other's. Keep the intention of both, and leave no marker."""

_WHAT = {FeedbackKind.CI: _CI, FeedbackKind.REVIEW: _REVIEW, FeedbackKind.CONFLICT: _CONFLICT}
_LAST = {
    FeedbackKind.CI: "what was wrong, and what you changed.",
    FeedbackKind.REVIEW: "what you changed, or why you changed nothing. It is posted as the answer.",
    FeedbackKind.CONFLICT: "how you merged each file.",
}


def feedback_prompt(
    task: Task,
    kind: FeedbackKind,
    context: str,
    feedback: str | None = None,
    nonce: str | None = None,
    cloud: bool = False,
) -> Prompt:
    """Ask to address one thing that came back; its words are those of others."""
    instructions = _HEAD.format(
        what=_WHAT[kind], rules=house_rules(cloud), kind=kind_rules(task), last=_LAST[kind]
    )
    blocks = {"request": task.text, "context": context, "feedback": feedback}
    return assemble(instructions, blocks, nonce)
