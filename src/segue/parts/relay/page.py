"""The questions of the relay on the page: what an agent elsewhere wants to run here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from segue.parts.relay.questions import PendingQuestion, Questions
from segue.runtime.app import App
from segue.web.routes import ActionResult, ActionRoute


def list_questions(app: App) -> list[dict[str, Any]]:
    """Return the questions of the relay that wait for an answer, most urgent first."""
    return [_describe_question(question) for question in Questions(app.secret_dir / "relay").open()]


def _describe_question(question: PendingQuestion) -> dict[str, Any]:
    """Describe a question: the whole command, and the digest that an answer to it must name."""
    asked = question.proposal
    facts = {"id": question.id, "action": asked.action, "argv": list(asked.argv), "folder": asked.folder}
    return {**facts, "text": asked.text, "digest": asked.digest, "until": question.until}


async def allow(app: App, path: Mapping[str, str], form: Mapping[str, str]) -> ActionResult:
    """Allow an action of the relay."""
    return _answer(app, path, form, yes=True)


async def refuse(app: App, path: Mapping[str, str], form: Mapping[str, str]) -> ActionResult:
    """Refuse an action of the relay."""
    return _answer(app, path, form, yes=False)


def _answer(app: App, path: Mapping[str, str], form: Mapping[str, str], *, yes: bool) -> ActionResult:
    question = Questions(app.secret_dir / "relay").answer(path["question"], form.get("digest", ""), yes)
    return ActionResult(f"{'Allowed' if yes else 'Refused'}: {question.proposal.text}", "/inbox")


ACTIONS = (
    ActionRoute("/bridge/questions/{question}/allow", allow),
    ActionRoute("/bridge/questions/{question}/refuse", refuse),
)
