"""Asks a model of any vendor through LiteLLM, if it is installed: one question, one answer, no waiting."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

from segue.domain.errors import Unavailable
from segue.judges.endpoint import SERVICE, ModelQuestion, trouble
from segue.judges.options import JudgeSettings
from segue.system.extras import missing_extra

PREFIX = "litellm/"
EXTRA = "litellm"
"""The extra that has it."""
MISSING = "LiteLLM is not installed, but the judge's model needs it."

_KEPT = 300


def is_installed() -> bool:
    """Return whether LiteLLM can be imported."""
    return importlib.util.find_spec("litellm") is not None


async def ask_vendor(options: JudgeSettings, question: ModelQuestion, clean: Callable[[str], str]) -> str:
    """Return the model's answer; raises Unavailable, QuestionRefused or another SegueError."""
    if not is_installed():
        raise missing_extra(MISSING, EXTRA)
    litellm: Any = importlib.import_module("litellm")
    litellm.suppress_debug_info = True  # it prints advertisements to stdout otherwise
    body = question.body(options.model.removeprefix(PREFIX))
    try:
        answer = await litellm.acompletion(**body, timeout=options.timeout, num_retries=0)
    except Exception as error:
        raise _translate(error, clean) from None
    content: str | None = answer.choices[0].message.content
    return content or ""


def _translate(error: Exception, clean: Callable[[str], str]) -> Exception:
    """Translate an error: LiteLLM maps every vendor's to OpenAI's status; one without never arrived."""
    status = getattr(error, "status_code", None)
    words = clean(f"{type(error).__name__}: {error}"[:_KEPT])
    return trouble(status, words) if isinstance(status, int) else Unavailable(SERVICE, words)
