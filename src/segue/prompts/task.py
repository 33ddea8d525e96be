"""The prompts about one task: plan it, execute it, fix it, address its review or what came back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from segue.domain.delivery import FeedbackKind
from segue.domain.exits import OFFER
from segue.domain.job import Prompt
from segue.domain.task import Task, TaskKind
from segue.domain.verdict import Finding, Verdict
from segue.prompts.assemble import assemble, criterion_text, house_rules, task_text

_PLAN = """\
You are in a git repository, in the current working directory. Write a plan for the task between the task \
markers below. Another agent, which sees only your plan and the task, will implement it.

- Change nothing: no file, no commit, no branch.
- Read the code that the task affects. Name the files to change, and say what changes in each.
- Say how to test the result.
- Nobody can answer questions. Where the task leaves a choice open, choose the simplest option and say so.
- Your answer is the plan itself, in Markdown, and nothing else."""

_EXECUTE = """\
You are working in a git repository, in the current working directory. Complete the task between the task \
markers below.

- Change only what the task needs, and only inside the current working directory.
{rules}
{sealed}
- Where the task leaves a choice open, choose the simplest option: nobody answers while you work.
{way_out}
- Finish with one paragraph: what you changed, what you checked, and what is left to do, if anything."""

_WITH_PLAN = """
- There is already a plan. Do not plan again; implement it and test the result."""

_KINDS = {
    TaskKind.BUILD: "- If the project has tests, run the ones your change affects, and fix what you broke.",
    TaskKind.TEST_FIRST: """\
- The task asks for tests that fail now. Run them, and make sure that each fails for the right reason: an \
assertion, or a name that does not exist yet; not a syntax error or a broken set-up.
- Do not implement what they test, and do not weaken them.""",
    TaskKind.VERIFY_ONLY: """\
- The task asks for a result, not for a change. Run what it names; report each command, how it ended and \
what it shows.
- Fix nothing unless the task asks for it: if something fails, say what and why.""",
    TaskKind.DOCS: """\
- The task asks for documentation or configuration: do not change what the program does.
- Everything you write must be true: read the code, and try the commands that you describe.""",
}
"""What is special about each kind of task that agents do."""

_SEALED = """\
- Segue checks your work with the tests, test settings and check scripts from before your change. New tests \
are welcome; changes to existing ones have no effect unless the task asks for them."""

_RESOLVE = """\
You have worked on the task between the task markers below. Your work was checked, and some criteria are not \
met. Keep what is there and fix exactly what is missing, on the same branch.

- Every criterion listed as not met must be met when you finish. Those that are met must stay met.
- Change only what this needs, and only inside the repository.
{rules}
{kind}
- Nobody answers while you work.
{way_out}
- Finish with one paragraph: what you changed for each criterion."""

_ADDRESS = """\
You are working in a git repository, in the current working directory. The task between the task markers \
below has been done and reviewed. Address the findings of the review.

- Address every finding. If a finding is wrong, leave the code as it is and say why in your last paragraph.
- Change only what the findings need, and only inside the current working directory.
{rules}
{kind}
- Nobody answers while you work.
{way_out}
- Finish with one paragraph: which findings you addressed, and how."""

_RESEARCH = """\
Search the web for the answer to the question between the question markers below. It came up during the \
task; your answer goes to the agent that continues with it.

- Change nothing: no file, no commit, no branch.
- Prefer the documentation of the vendor or the project itself. Report what it says, not what you remember.
- Give the full URL of every page you rely on.
- If you find nothing useful, or cannot search, say so.
- Write at most one page."""

_WORDS = """\
The user says more about your task. Continue with it; the task, its checks and its rules stay as they are. \
What the user says:

"""

_MAX_FINDINGS = 100


def plan_prompt(
    task: Task,
    context: str,
    feedback: str | None = None,
    nonce: str | None = None,
    earlier: str = "",
    comments: Iterable[str] = (),
) -> Prompt:
    """Ask for a plan of one task."""
    blocks = {
        "context": context,
        "task": task_text(task),
        "comments": "\n\n".join(comments),
        "earlier": earlier,
        "feedback": feedback,
    }
    return assemble(_PLAN, blocks, nonce)


def execute_prompt(
    task: Task,
    context: str,
    plan: str | None = None,
    feedback: str | None = None,
    nonce: str | None = None,
    cloud: bool = False,
    earlier: str = "",
    comments: Iterable[str] = (),
    tried: str = "",
) -> Prompt:
    """Ask to complete one task and to leave the commit to Segue.

    `earlier` is what other tasks did, `comments` what people said about the task.
    """
    blocks = {
        "context": context,
        "task": task_text(task),
        "comments": "\n\n".join(comments),
        "earlier": earlier,
        "plan": plan,
        "tried": tried,
        "feedback": feedback,
    }
    instructions = _EXECUTE.format(rules=house_rules(cloud), sealed=_SEALED, way_out=OFFER)
    return assemble(instructions + (_WITH_PLAN if plan else ""), blocks, nonce, about=_kind_words(task))


def resolve_prompt(
    task: Task,
    context: str,
    verdict: Verdict,
    feedback: str | None = None,
    nonce: str | None = None,
    cloud: bool = False,
    notes: str | None = None,
    tried: str = "",
    comments: Iterable[str] = (),
) -> Prompt:
    """Ask to fix what is missing; `notes` are the results of searches and diagnostic commands.

    `comments` is what people said that this conversation lacks.
    """
    blocks = {
        "missing": _compare(task, verdict),
        "comments": "\n\n".join(comments),
        "tried": tried,
        "notes": notes,
        "task": task_text(task),
        "context": context,
        "feedback": feedback,
    }
    return assemble(_fill(_RESOLVE, task, cloud), blocks, nonce)


def address_prompt(
    task: Task,
    findings: Sequence[Finding],
    feedback: str | None = None,
    nonce: str | None = None,
    cloud: bool = False,
    comments: Iterable[str] = (),
) -> Prompt:
    """Ask to address the findings of a review."""
    listed = "\n\n".join(_describe(finding) for finding in findings[:_MAX_FINDINGS])
    if len(findings) > _MAX_FINDINGS:
        listed += f"\n\n({len(findings) - _MAX_FINDINGS} more findings follow in the next round.)"
    said = "\n\n".join(comments)
    blocks = {"task": task_text(task), "comments": said, "findings": listed, "feedback": feedback}
    return assemble(_fill(_ADDRESS, task, cloud), blocks, nonce)


def research_prompt(
    task: Task, question: str, feedback: str | None = None, nonce: str | None = None
) -> Prompt:
    """Ask to look something up."""
    blocks = {"question": question, "task": task_text(task), "feedback": feedback}
    return assemble(_RESEARCH, blocks, nonce)


def words_prompt(words: Iterable[str]) -> Prompt:
    """Pass on what people said about the task while the agent worked on it."""
    return Prompt(_WORDS + "\n\n".join(words) + "\n")


def try_prompt(text: str) -> Prompt:
    """Pass on the user's own words: `segue try` shows what an agent does with exactly these."""
    return Prompt(text)


def _fill(instructions: str, task: Task, cloud: bool) -> str:
    return instructions.format(rules=house_rules(cloud), kind=kind_rules(task), way_out=OFFER)


def kind_rules(task: Task) -> str:
    """Return what the kind of the task asks for, and how the work is checked."""
    return f"{_kind_words(task)}\n{_SEALED}"


def _kind_words(task: Task) -> str:
    return _KINDS.get(task.kind, _KINDS[TaskKind.BUILD])


def _compare(task: Task, verdict: Verdict) -> str:
    """List every criterion with its state, the unmet ones first."""
    texts = {criterion.key: criterion_text(criterion, task) for criterion in task.criteria}
    lines = []
    for found in sorted(verdict.criteria, key=lambda criterion: criterion.met):
        state = "met" if found.met else "NOT MET"
        lines.append(f"- {found.key}: {state}. {texts.get(found.key, '')}".rstrip())
        if not found.met and found.evidence:
            lines.append(f"  What was seen: {found.evidence}")
    return "\n".join([*lines, "", verdict.reason]).strip()


def _describe(finding: Finding) -> str:
    place = f"{finding.file}:{finding.line}" if finding.line else finding.file
    text = f"- {place} [{finding.severity}, {finding.rule}] {finding.message}"
    return f"{text}\n  Suggestion: {finding.suggestion}" if finding.suggestion else text


_FEEDBACK_HEAD = """\
You are working in a git repository, in the current working directory. The work on this branch was \
proposed as a pull request, and something came back: it is between the request markers below. {what}

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

_FEEDBACK_WHAT = {
    FeedbackKind.CI: _CI,
    FeedbackKind.REVIEW: _REVIEW,
    FeedbackKind.CONFLICT: _CONFLICT,
}
_FEEDBACK_LAST = {
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
    comments: Iterable[str] = (),
) -> Prompt:
    """Ask to address one thing that came back; its words are those of others.

    `comments` is what the user's people said about it.
    """
    instructions = _FEEDBACK_HEAD.format(
        what=_FEEDBACK_WHAT[kind],
        rules=house_rules(cloud),
        kind=kind_rules(task),
        last=_FEEDBACK_LAST[kind],
    )
    said = "\n\n".join(comments)
    blocks = {"request": task.text, "comments": said, "context": context, "feedback": feedback}
    return assemble(instructions, blocks, nonce)
