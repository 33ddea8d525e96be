"""Asks whatever stands behind a name: an agent, a model of LiteLLM's, or a profile made of several."""

from __future__ import annotations

import asyncio
import importlib
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from segue.prompts.composite import choose_text, criticise_text, is_satisfied, read_choice, revise_text
from segue.prompts.transcript import ChatMessage, Speaker, write_transcript
from segue.provider.catalogue import Catalogue, Target
from segue.provider.cli_models import Answer, CliModels
from segue.provider.failures import Busy
from segue.provider.options import Fallback, FanOut, Profile, Revise, Single
from segue.provider.trace import Span, Trace


@dataclass(frozen=True, slots=True)
class Composer:
    """Answers one call; every model that is asked on the way becomes a span of its trace."""

    catalogue: Catalogue
    cli: CliModels
    trace: Trace
    params: Mapping[str, Any]
    """What the caller passed for tuning; only models of LiteLLM's can be tuned."""
    deadline: float

    async def ask(
        self, name: str, messages: Sequence[ChatMessage], parent: Span | None = None, part: str = ""
    ) -> Answer:
        """Ask the model or profile of this name."""
        target = self.catalogue.target(name)
        with self.trace.span(target.kind, name, parent, part) as span:
            if target.kind == "cli":
                left = self._left()
                return await self.cli.ask(
                    target.provider, target.model, write_transcript(messages), left, span
                )
            if target.kind == "profile":
                return await self._profile(self.catalogue.profiles[target.model], messages, span)
            return await self._vendor(target, messages, span)

    async def _profile(self, profile: Profile, messages: Sequence[ChatMessage], span: Span) -> Answer:
        match profile:
            case Single():
                answer = await self.ask(profile.model, messages, span)
            case Fallback():
                answer = await self._fallback(profile, messages, span)
            case FanOut():
                answer = await self._fan_out(profile, messages, span)
            case Revise():
                answer = await self._revise(profile, messages, span)
        return answer

    async def _fallback(self, profile: Fallback, messages: Sequence[ChatMessage], span: Span) -> Answer:
        *others, last = profile.models
        for model in others:
            try:
                return await self.ask(model, messages, span, "attempt")
            except Busy:
                raise
            except Exception:
                span.note = f"{model} gave no answer"
        return await self.ask(last, messages, span, "attempt")

    async def _fan_out(self, profile: FanOut, messages: Sequence[ChatMessage], span: Span) -> Answer:
        asked = [self.ask(model, messages, span, "candidate") for model in profile.models]
        results = await asyncio.gather(*asked, return_exceptions=True)
        answers = [result for result in results if isinstance(result, Answer)]
        if not answers:
            [first, *_] = [result for result in results if isinstance(result, BaseException)]
            raise first
        distinct = list(dict.fromkeys(answer.text for answer in answers))
        if profile.judge is None or len(distinct) == 1:
            return _voted(answers, span)
        choice = await self._judged(profile.judge, messages, distinct, span)
        return _voted(answers, span) if choice is None else Answer(distinct[choice])

    async def _judged(
        self, judge: str, messages: Sequence[ChatMessage], answers: Sequence[str], span: Span
    ) -> int | None:
        question = [*messages, ChatMessage(Speaker.USER, choose_text(answers))]
        try:
            reply = await self.ask(judge, question, span, "judge")
        except Exception:
            span.note = "the judge gave no answer; the most frequent answer was taken"
            return None
        choice = read_choice(reply.text, len(answers))
        if choice is None:
            span.note = "the judge chose none; the most frequent answer was taken"
        return choice

    async def _revise(self, profile: Revise, messages: Sequence[ChatMessage], span: Span) -> Answer:
        answer = await self.ask(profile.draft, messages, span, "draft")
        for _ in range(profile.rounds):
            so_far = [*messages, ChatMessage(Speaker.ASSISTANT, answer.text)]
            question = [*so_far, ChatMessage(Speaker.USER, criticise_text())]
            critique = await self.ask(profile.critique, question, span, "critique")
            if is_satisfied(critique.text):
                break
            wish = [*so_far, ChatMessage(Speaker.USER, revise_text(critique.text))]
            answer = await self.ask(profile.revise or profile.draft, wish, span, "revision")
        return answer

    async def _vendor(self, target: Target, messages: Sequence[ChatMessage], span: Span) -> Answer:
        """A model of LiteLLM's own, asked as its users ask it."""
        litellm: Any = importlib.import_module("litellm")
        response = await litellm.acompletion(
            **{**self.params, **target.params},
            model=target.model,
            messages=[{"role": said.role.lower(), "content": said.text} for said in messages],
            timeout=self._left(),
            metadata={"segue_trace": self.trace.id, "segue_parent": span.parent},
        )
        usage = response.usage
        span.input_tokens, span.output_tokens = usage.prompt_tokens or 0, usage.completion_tokens or 0
        span.cost_usd = response._hidden_params.get("response_cost")
        span.answered_by = response.model
        choice = response.choices[0]
        return Answer(choice.message.content or "", choice.finish_reason or "stop")

    def _left(self) -> float:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise Busy("The time limit passed before every model of the profile was asked.")
        return left


def _voted(answers: Sequence[Answer], span: Span) -> Answer:
    """The most frequent answer, whatever its blanks and capitals; the first of those that tie."""
    votes = Counter(_alike(answer.text) for answer in answers)
    winner = max(votes, key=lambda text: votes[text])
    span.note = span.note or f"{votes[winner]} of {len(answers)} answers agree"
    return next(answer for answer in answers if _alike(answer.text) == winner)


def _alike(text: str) -> str:
    return " ".join(text.split()).casefold()
