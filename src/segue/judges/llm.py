"""A language model as judge: it quotes evidence for each criterion; the verdict is computed here."""

from __future__ import annotations

import contextlib
import os
from typing import Any, ClassVar
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from segue.domain.errors import AGAIN, CredentialsError, UnusableAnswer
from segue.domain.task import Task
from segue.domain.verdict import Evidence, Verdict
from segue.judges.endpoint import (
    EXTRA,
    KEPT,
    MISSING,
    PREFIX,
    ModelMessage,
    ModelQuestion,
    QuestionRefused,
    ask_endpoint,
    ask_vendor,
    failed,
    is_installed,
)
from segue.judges.options import JudgeSettings
from segue.judges.verdict import read_verdict, schema_of
from segue.ports import Problem
from segue.prompts.judge import criteria_of, judge_again_prompt, judge_prompt
from segue.system.extras import install_line
from segue.system.http.client import LOOPBACK
from segue.system.redact import Redactor
from segue.system.services import Services


class LlmJudge:
    """Asks a model whether each criterion is met, and believes only what it can quote."""

    Options: ClassVar[type[JudgeSettings]] = JudgeSettings
    name = "llm"
    by_model = True

    def __init__(self, options: JudgeSettings, services: Services) -> None:
        self._options = options
        self._redactor = services.redactor
        self._key = os.environ.get(options.api_key_env, "").strip() if options.api_key_env else ""
        self._own = Redactor([self._key])
        self._structured = True

    def check(self) -> list[Problem]:
        """Report a missing key, or a missing LiteLLM if the model needs it."""
        if self._options.model.startswith(PREFIX):
            return [] if is_installed() else [Problem(MISSING, install_line(EXTRA), 5)]
        if self._key or not self._needs_key():
            return []
        name = self._options.api_key_env
        return [
            Problem(
                f"The judge's key {name} is not set.",
                f"export {name}=…, set judge.api_key_env, or let an agent here judge: "
                "--judge agent --agent verify=claude",
                4,
            )
        ]

    async def judge(self, task: Task, evidence: Evidence) -> Verdict:
        """Return a verdict with one entry per criterion and one per failed check.

        An answer that cannot be used is asked for once more.
        """
        task, evidence = self._clean_task(task), self._clean_evidence(evidence)
        most = self._options.max_evidence_bytes
        asked = judge_prompt(task, evidence, max_bytes=most, diagnostics=evidence.diagnostics)
        question = {"role": "user", "content": asked.text}
        schema = schema_of([one.key for one in criteria_of(task)], evidence.diagnostics is not None)
        first = self._clean(await self._ask((question,), schema))
        try:
            return read_verdict(first, task, evidence, most)
        except UnusableAnswer as problem:
            again = {"role": "user", "content": judge_again_prompt(str(problem)).text}
        said = {"role": "assistant", "content": first or "(nothing)"}
        second = self._clean(await self._ask((question, said, again), schema))
        try:
            return read_verdict(second, task, evidence, most)
        except UnusableAnswer as problem:
            raise failed(
                f"The judge {self._options.model} gave no usable answer, asked twice: {problem}",
                f"To ask again, {AGAIN}; or set judge.model to a stronger model",
            ) from None

    async def _ask(self, messages: tuple[ModelMessage, ...], schema: dict[str, Any]) -> str:
        """Ask for structured output, or for any form if the endpoint refuses."""
        if self._structured:
            named = {"name": "verdict", "strict": True, "schema": schema}
            form = {"type": "json_schema", "json_schema": named}
            with contextlib.suppress(QuestionRefused):
                return await self._call(ModelQuestion(messages, form))
        try:
            answer = await self._call(ModelQuestion(messages))
        except QuestionRefused as error:
            raise failed(
                f"The judge's endpoint refused the question ({error}).",
                "Check judge.model; if the question is too long for it, lower judge.max_evidence_bytes",
            ) from None
        self._structured = False
        return answer

    async def _call(self, question: ModelQuestion) -> str:
        if self._options.model.startswith(PREFIX):
            return await ask_vendor(self._options, question, self._clean)
        problems = self.check()
        if problems:
            raise CredentialsError(problems[0].message, kept=KEPT, hint=problems[0].fix)
        return await ask_endpoint(self._options, self._key, question, self._clean)

    def _needs_key(self) -> bool:
        local = urlsplit(self._options.base_url).hostname in LOOPBACK
        return bool(self._options.api_key_env) and not local

    def _clean(self, text: str) -> str:
        """Remove secrets, and the halves of characters that no endpoint accepts."""
        return self._own.text(self._redactor.text(text)).encode("utf-8", "replace").decode("utf-8")

    def _clean_task(self, task: Task) -> Task:
        criteria = tuple(replace(criterion, text=self._clean(criterion.text)) for criterion in task.criteria)
        return replace(task, title=self._clean(task.title), text=self._clean(task.text), criteria=criteria)

    def _clean_evidence(self, evidence: Evidence) -> Evidence:
        return replace(
            evidence,
            diff=self._clean(evidence.diff),
            files=tuple(map(self._clean, evidence.files)),
            checks=tuple(
                msgspec.structs.replace(check, output=self._clean(check.output)) for check in evidence.checks
            ),
            summary=self._clean(evidence.summary),
            context=self._clean(evidence.context),
        )
