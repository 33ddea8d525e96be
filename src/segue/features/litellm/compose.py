"""Resolves a model name and asks what it names: an agent, a LiteLLM model, or a profile of several."""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from segue.features.litellm.catalogue import Catalogue, Fallback, FanOut, ModelTarget, Profile, Single
from segue.features.litellm.cli_models import CliModels, Hear
from segue.features.litellm.failures import Busy
from segue.features.litellm.prompts import (
    ChatMessage,
    Speaker,
    choose_text,
    read_choice,
    write_transcript,
)
from segue.features.litellm.response import ModelAnswer
from segue.features.litellm.trace import Span, Trace

Messages = Sequence[ChatMessage]


class Composer(Struct, frozen=True):
    """Answers one call; every model it asks becomes a span of the trace."""

    catalogue: Catalogue
    cli: CliModels
    trace: Trace
    params: Mapping[str, Any]
    """The caller's tuning parameters; only LiteLLM models take them."""
    deadline: float

    async def ask(
        self,
        name: str,
        messages: Messages,
        parent: Span | None = None,
        part: str = "",
        hear: Hear | None = None,
    ) -> ModelAnswer:
        """Ask the model or profile with this name; `hear` takes the answer of one agent while it is given."""
        target = self.catalogue.resolve(name)
        with self.trace.span(target.kind, name, parent, part) as span:
            if target.kind == "cli":
                prompt, left = write_transcript(messages), self._seconds_left()
                return await self.cli.ask(target.by, target.model, prompt, left, span, hear)
            if target.kind == "profile":
                return await self._ask_profile(self.catalogue.profiles[target.model], messages, span, hear)
            return await self._ask_litellm(target, messages, span)

    async def _ask_profile(
        self, profile: Profile, messages: Messages, span: Span, hear: Hear | None
    ) -> ModelAnswer:
        match profile:
            case Single():
                return await self.ask(profile.model, messages, span, hear=hear)
            case Fallback():
                return await self._fallback(profile, messages, span, hear)
            case FanOut():
                return await self._fan_out(profile, messages, span)

    async def _fallback(
        self, profile: Fallback, messages: Messages, span: Span, hear: Hear | None
    ) -> ModelAnswer:
        *others, last = profile.models
        heard: list[bool] = []

        def listen(piece: str) -> None:
            heard.append(True)
            assert hear is not None
            hear(piece)

        for model in others:
            try:
                return await self.ask(model, messages, span, "attempt", listen if hear else None)
            except Busy:
                raise
            except Exception:
                span.learn(note=f"{model} failed")
                if heard:  # nobody can take back what was said
                    raise
        return await self.ask(last, messages, span, "attempt", hear)

    async def _fan_out(self, profile: FanOut, messages: Messages, span: Span) -> ModelAnswer:
        asked = [self.ask(model, messages, span, "candidate") for model in profile.models]
        results = await asyncio.gather(*asked, return_exceptions=True)
        answers = [result for result in results if isinstance(result, ModelAnswer)]
        if not answers:
            [first, *_] = [result for result in results if isinstance(result, BaseException)]
            raise first
        distinct = list(dict.fromkeys(answer.text for answer in answers))
        if len(distinct) == 1:
            return answers[0]
        return ModelAnswer(distinct[await self._judge(profile.judge, messages, distinct, span)])

    async def _judge(self, judge: str, messages: Messages, answers: Sequence[str], span: Span) -> int:
        question = [*messages, ChatMessage(Speaker.USER, choose_text(answers))]
        try:
            reply = await self.ask(judge, question, span, "judge")
        except Exception:
            span.learn(note="the judge failed; the first answer was used")
            return 0
        choice = read_choice(reply.text, len(answers))
        if choice is None:
            span.learn(note="the judge chose none; the first answer was used")
        return choice or 0

    async def _ask_litellm(self, target: ModelTarget, messages: Messages, span: Span) -> ModelAnswer:
        """Ask a LiteLLM model as LiteLLM's users do."""
        litellm: Any = importlib.import_module("litellm")
        response = await litellm.acompletion(
            **{**self.params, **target.params},
            model=target.model,
            messages=[{"role": message.role.lower(), "content": message.text} for message in messages],
            timeout=self._seconds_left(),
            metadata={"segue_trace": self.trace.id, "segue_parent": span.event.parent},
        )
        usage = response.usage
        span.learn(
            input_tokens=usage.prompt_tokens or 0,
            output_tokens=usage.completion_tokens or 0,
            cost_usd=response._hidden_params.get("response_cost"),
            answered_by=response.model,
        )
        choice = response.choices[0]
        return ModelAnswer(choice.message.content or "", choice.finish_reason or "stop")

    def _seconds_left(self) -> float:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise Busy("The time limit passed before every model of the profile had been asked.")
        return left
