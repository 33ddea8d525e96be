"""Calls command-line agents as models: a fresh folder and process per call, a limited number at a time."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import secrets
import shutil
import tempfile
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.events import AgentEnded, AgentOutput, AgentStarted, Event
from segue.domain.job import Job, Limits, Mode, Prompt
from segue.domain.outcome import Failure, FailureKind, Outcome, Usage
from segue.domain.text import LONGEST_ANSWER, strip_control
from segue.features.litellm.catalogue import DEFAULT_MODEL
from segue.features.litellm.failures import AgentFailed, Busy, InvalidRequest, OutOfBudget
from segue.features.litellm.options import provider_settings
from segue.features.litellm.request import check_model
from segue.features.litellm.response import ModelAnswer
from segue.features.litellm.trace import Span
from segue.flow.agents import ChosenAgent
from segue.flow.watched import run_agent
from segue.ports import Agent
from segue.runtime.app import App
from segue.runtime.ready import check_caps
from segue.runtime.wiring import make_agent, raise_problems
from segue.system import identity
from segue.system.files import private_folder
from segue.system.process.processes import Processes, end_orphans
from segue.system.redact import Redactor

Hear = Callable[[str], None]
"""Takes the next piece of an answer."""

HOLD = 1.0
"""Seconds for which the first words are held: agents say why they fail, and another may take over."""

_LETTERS = "".join(map(chr, range(ord("!"), ord("~") + 1)))
"""What secrets consist of: a word of these may be unfinished."""

_HELD_CHARS = 16 * 1024
"""How long the last word may become before it is passed on as it is."""


class Voice:
    """One answer as it is spoken: a word is passed on when it has ended, white space when more follows."""

    def __init__(self, hear: Hear, redactor: Redactor, hold: float = HOLD) -> None:
        self._hear = hear
        self._redactor = redactor
        self._hold = hold
        self._timer: asyncio.TimerHandle | None = None
        self._is_held = True
        self._rest = ""
        self._said: list[str] = []

    def add(self, piece: str) -> None:
        """Take the next piece of what the agent says."""
        self._rest += piece
        if self._is_held:
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(self._hold, self._release)
            return
        whole = self._redactor.unfinished(self._rest[: len(self._rest.rstrip(_LETTERS).rstrip())])
        is_long = not whole and len(self._rest) > _HELD_CHARS
        self._pass_on(len(self._rest) if is_long else whole)

    def finish(self, answer: str) -> None:
        """Pass on the rest; the answer follows if it is not what was said last."""
        self.drop()
        self._pass_on(len(self._rest.rstrip()))
        if not "".join(self._said).endswith(answer):
            self._rest = f"\n\n{answer}" if self._said else answer
            self._pass_on(len(self._rest))

    def drop(self) -> None:
        """Keep to itself what was not passed on yet: the agent failed."""
        if self._timer is not None:
            self._timer.cancel()

    def _release(self) -> None:
        self._is_held = False
        self.add("")

    def _pass_on(self, end: int) -> None:
        text, self._rest = self._rest[:end], self._rest[end:]
        if text:
            safe = self._redactor.text(text)
            self._said.append(safe)
            self._hear(safe)


_OWNER = "owner.json"


class CallFolder(Struct, frozen=True):
    """`path` is for the supervisor, `work` for the agents' workspaces.

    Workspaces are among the temporary files, because agents also read the folders above their own.
    """

    path: Path
    work: Path

    @classmethod
    def make(cls, root: Path) -> CallFolder:
        """Create a folder that names its owner from the first moment it is visible."""
        name = secrets.token_hex(8)
        work = Path(tempfile.mkdtemp(prefix="segue-ask-"))
        new = private_folder(private_folder(root) / f".{name}")
        (new / _OWNER).write_text(json.dumps({"process": identity.me(), "work": str(work)}))
        return cls(new.rename(root / name), work)

    def make_workspace(self, token: str) -> Path:
        """Create an empty folder for one call."""
        path = self.work / token
        path.mkdir(mode=0o700)
        return path

    def clear(self) -> None:
        """Delete what agents share while they run: nothing is kept between calls."""
        shutil.rmtree(self.path / "agents", ignore_errors=True)

    def remove(self) -> None:
        """Delete everything."""
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.rmtree(self.path, ignore_errors=True)


async def sweep(root: Path) -> None:
    """Stop what killed processes left running, and delete their folders."""
    for path in root.glob("[0-9a-f]*"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            owner = json.loads((path / _OWNER).read_text())
            if identity.is_dead(owner["process"]):
                await end_orphans(path)
                CallFolder(path, Path(owner["work"])).remove()


_CHARS_PER_TOKEN = 4
_MOST_PRINTED = 64 * 1024**2
"""A rule of thumb, for agents that report no usage."""

_STDERR_CHARS = 500
_TOO_LONG = f"The answer is longer than {LONGEST_ANSWER // 1024**2} MB."


class CliModels:
    """The agents of this process. They share a supervisor, which stops them when this process dies."""

    def __init__(self, app: App, redactor: Redactor, folder: CallFolder) -> None:
        self._app = app
        self._redactor = redactor
        self._folder = folder
        self._processes = Processes(folder.path, tied=True)
        self._free = asyncio.Semaphore(provider_settings(app.loaded.settings).processes)
        self._agents: dict[str, Agent] = {}
        self._checking = asyncio.Lock()
        self._running = 0
        self._budget = app.loaded.settings.limits.budget()
        self._launches, self._usage = 0, Usage()
        self._resting: dict[str, Failure] = {}
        """Agents with their models that reached a limit whose end is known."""

    async def ask(
        self, kind: str, model: str, prompt: Prompt, timeout: float, span: Span, hear: Hear | None = None
    ) -> ModelAnswer:
        """Have an agent answer; raise AgentFailed, Busy, or the reason why the agent cannot run at all.

        `hear` takes the answer while it is given.
        """
        name = None if model == DEFAULT_MODEL else check_model(model)
        began = time.monotonic()
        agent = await self._get_agent(kind)
        async with self._slot(began + timeout - time.monotonic()):
            queued = round(time.monotonic() - began, 6)
            span.learn(queued=queued)
            by = ChosenAgent(agent, name or self._app.loaded.settings.model)
            self._admit(by)
            voice = Voice(hear, self._redactor) if hear else None
            try:
                outcome = await self._launch(by, prompt, timeout - queued, voice)
            finally:
                if voice is not None:
                    voice.drop()
        answer = _read_outcome(outcome, prompt, span)
        if voice is not None:
            voice.finish(answer.text)
        return answer

    async def close(self) -> None:
        """Stop all agents and their supervisor."""
        await self._processes.__aexit__(None, None, None)

    async def _get_agent(self, kind: str) -> Agent:
        """Return the agent, checked once; one that fails its check is checked again next time."""
        if kind not in self._agents:
            async with self._checking:
                if kind not in self._agents:
                    agent = make_agent(kind, self._app.loaded, self._app.services(self._processes))
                    if agent.can.cloud:
                        raise InvalidRequest(f"{kind} works on a repository; it does not answer questions.")
                    check_caps(self._budget, agent.can, kind)
                    raise_problems(await asyncio.to_thread(agent.check))
                    self._agents[kind] = agent
        return self._agents[kind]

    def _admit(self, by: ChosenAgent) -> None:
        """Check before money is spent: the limit that an earlier call met, and the budget of all calls."""
        known = self._resting.get(by.name)
        if known is not None and (known.until or 0.0) > time.time():
            raise AgentFailed(known, was_launched=False)
        reason = self._budget.exceeded(self._launches, self._usage)
        if reason:
            raise OutOfBudget(f"{by.name} was not asked: {reason}.")
        self._launches += 1

    def _settle(self, by: ChosenAgent, outcome: Outcome) -> Outcome:
        """Count what a launch used, and remember until when the agent cannot work."""
        self._usage += outcome.usage or Usage()
        failure = outcome.failure
        if failure is not None and failure.until is not None:
            words = f"{by.name} was not asked again: {failure.message}"
            self._resting[by.name] = Failure(failure.kind, words, until=failure.until)
        return outcome

    @asynccontextmanager
    async def _slot(self, timeout: float) -> AsyncGenerator[None, None]:
        try:
            async with asyncio.timeout(timeout):
                await self._free.acquire()
        except TimeoutError:
            limit = provider_settings(self._app.loaded.settings).processes
            busy = f"All {limit} processes (provider.processes) were busy for {timeout:.1f} s"
            raise Busy(f"{busy}; nothing was started.") from None
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1
            self._free.release()
            if self._running == 0:
                self._folder.clear()

    async def _launch(self, by: ChosenAgent, prompt: Prompt, seconds: float, voice: Voice | None) -> Outcome:
        token = secrets.token_hex(16)
        workspace = self._folder.make_workspace(token)
        hear = voice.add if voice else None
        job = Job(token, prompt, workspace, Mode.ASK, by.model, limits=self._limits(seconds), hear=hear)
        printed = PlainPrint()
        try:
            outcome = printed.explain(await run_agent(by.agent, job, printed.see))
            return self._settle(by, self._redactor.struct(outcome))
        finally:
            by.agent.forget(token)
            self._processes.delete_forgotten()  # it contains the conversation
            shutil.rmtree(workspace, ignore_errors=True)

    def _limits(self, seconds: float) -> Limits:
        settings = self._app.loaded.settings
        usual = settings.limits.launch()
        return Limits(
            wall=max(0.001, min(seconds, usual.wall)),
            idle=usual.idle,
            grace=usual.grace,
            output_bytes=min(usual.output_bytes, _MOST_PRINTED),
            kept_bytes=LONGEST_ANSWER,
        )


class PlainPrint:
    """What a program prints that speaks no language of its own: that is its answer, as it is."""

    def __init__(self) -> None:
        self._printed: list[str] = []
        self._cut = False
        self._speaks = False

    async def see(self, event: Event) -> None:
        """Take note of an event; what the agent did on the way to its answer is not stored."""
        if isinstance(event, AgentOutput):
            if event.stream == "out":
                self._printed.append(event.text)
                self._cut = self._cut or event.cut_bytes > 0
        elif not isinstance(event, AgentStarted | AgentEnded):
            self._speaks = True

    def explain(self, outcome: Outcome) -> Outcome:
        """Return the outcome with the answer, where the agent found no result of its own kind."""
        failure = outcome.failure
        is_answer = failure is not None and failure.kind is FailureKind.NO_RESULT and outcome.exit_code == 0
        text = strip_control("".join(self._printed))
        if self._speaks or not is_answer or not text.strip():
            return outcome
        if self._cut:
            return replace(outcome, failure=Failure(FailureKind.OUTPUT_LIMIT, _TOO_LONG))
        return replace(outcome, text=text, failure=None)


def _read_outcome(outcome: Outcome, prompt: Prompt, span: Span) -> ModelAnswer:
    """Return the answer of an outcome and fill in the span; raise AgentFailed if there is none."""
    failure, usage = outcome.failure, outcome.usage
    stderr = " ".join((failure.stderr_tail if failure else "").split())[-_STDERR_CHARS:]
    span.learn(exit_code=outcome.exit_code, answered_by=outcome.model, stderr=stderr)
    if usage is not None and usage.tokens:
        tokens = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
        span.learn(**tokens, cost_usd=usage.cost_usd or None)
    else:
        tokens = {"input_tokens": _estimate(prompt.text), "output_tokens": _estimate(outcome.text)}
        span.learn(**tokens, estimated=True)
    if failure is not None:
        span.learn(failure=failure.kind.value)
        was_launched = outcome.exit_code is not None or failure.kind is not FailureKind.NOT_STARTED
        raise AgentFailed(failure, was_launched)
    if not outcome.text.strip():
        raise AgentFailed(Failure(FailureKind.NO_RESULT, "The agent ended well but gave no answer."), True)
    return ModelAnswer(outcome.text.rstrip())


def _estimate(text: str) -> int:
    return math.ceil(len(text) / _CHARS_PER_TOKEN)
