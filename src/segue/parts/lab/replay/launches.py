"""Replays launches: the same program, in a clone of the repository as it was, with its recorded model."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from segue.agents.claude.agent import ADDRESS, KEYS, ClaudeAgent, ClaudeOptions
from segue.agents.codex.agent import KEY, CodexAgent, CodexOptions, find_provider, point_at
from segue.agents.local.recording import read_recording
from segue.domain.errors import SegueError, ToolMissing, UsageError
from segue.domain.events import AgentRecorded, Event
from segue.domain.job import Job
from segue.domain.options import read_options
from segue.domain.outcome import Outcome
from segue.domain.run import Run
from segue.flow.watched import run_agent
from segue.parts.lab.replay.player import LaunchPlaces, OtherRequest, RecordedModel, slug
from segue.ports import Agent
from segue.prompts.task import try_prompt
from segue.runtime.app import App
from segue.runtime.wiring import raise_problems
from segue.system.files import private_folder
from segue.system.git.repository import Repository
from segue.system.git.scratch import clone_at
from segue.system.http.server import open_server
from segue.system.process.processes import Processes
from segue.system.recording.exchanges import RecordedLaunch, Recording
from segue.system.services import Services

if TYPE_CHECKING:
    from segue.store.store import Store


_KEY = "segue-replay-key"
_DIFF_LINES = 80


class ReplayedLaunch(Struct, frozen=True, kw_only=True):
    """What became of one recorded launch."""

    run: str
    step: str
    agent: str
    version: str
    requests: int
    other: OtherRequest | None = None
    """The first request that differs; None: all of them are the same."""
    patch: tuple[str, ...] = ()
    """How the work differs from what was recorded, as a diff; empty: it is the same."""
    failure: str = ""
    """Why the agent ended otherwise than it was asked to, as far as it says."""

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return self.other is None and not self.patch

    def to_json(self) -> dict[str, Any]:
        """Return it as `segue replay --agent --json` prints it."""
        other, found = self.other, self.other.found if self.other else None
        return {
            "run": self.run,
            "step": self.step,
            "agent": self.agent,
            "version": self.version,
            "requests": self.requests,
            "same": self.same,
            "request": other.number if other else None,
            "extra": bool(other and other.extra),
            "place": found.place if found else None,
            "diff": list(found.diff) if found else [],
            "patch": list(self.patch),
            "failure": self.failure or None,
        }


class _Recorded(Struct, frozen=True):
    """A recording, and which step it is of."""

    step: str
    recording: Recording


async def replay_launches(
    store: Store, app: App, runs: Sequence[Run], see: Callable[[str], None]
) -> list[ReplayedLaunch]:
    """Replay every recorded launch of some runs, in their order, until one differs."""
    found: list[ReplayedLaunch] = []
    for run in runs:
        own = App.load_for(run, command_line=app.place())
        recorded = _read(store, own, run)
        place = private_folder(own.state_dir / "scratch")
        # Not in the system's temporary folder, where Codex refuses its helpers.
        with tempfile.TemporaryDirectory(prefix="replay-", dir=place, ignore_cleanup_errors=True) as folder:
            replaying = _RunOfLaunches(own, run, Path(os.path.realpath(folder)))
            async with Processes(replaying.folder) as processes:
                for one in recorded:
                    see(f"{run.id}  {one.step}")
                    found.append(await replaying.replay(one, processes))
                    if not found[-1].same:
                        return found
    return found


def _read(store: Store, app: App, run: Run) -> list[_Recorded]:
    """Return the recordings of a run, in the order of its launches."""
    folder = app.run_folder(run.id)
    found = {
        event.step or "": event.event
        for event in store.events(run.id, kinds=(AgentRecorded,))
        if isinstance(event.event, AgentRecorded)
    }
    if not found:
        raise UsageError(
            f"Nothing of run {run.id} is recorded.",
            hint="Set record = true in [agents.claude] or [agents.codex] first: see `segue help replay`",
        )
    recorded = [_Recorded(step, read_recording(folder / event.file)) for step, event in found.items()]
    for one in recorded:
        if one.recording.launch.left_out or not one.recording.launch.head:
            raise UsageError(
                f"Step {one.step} of run {run.id} cannot be replayed: {_why_not(one.recording)}."
            )
    return recorded


def _why_not(recording: Recording) -> str:
    left = recording.launch.left_out
    return f"{left} requests were left out of its recording" if left else "its work tree was not recorded"


class _RunOfLaunches:
    """The launches of one run, one after the other: later ones may continue what earlier ones said."""

    def __init__(self, app: App, run: Run, scratch: Path) -> None:
        self._app, self._run, self._scratch = app, run, scratch
        self.folder = scratch / "run"
        self._sessions: dict[str, str] = {}

    async def replay(self, one: _Recorded, processes: Processes) -> ReplayedLaunch:
        """Launch the agent with its recorded model, and compare."""
        launch, work = one.recording.launch, self._scratch / "repo"
        agent = _AGENTS[launch.agent]
        home = await Repository.open(Path(self._run.spec.repo))
        with _fresh(work):
            repo = await clone_at(home, work, head=launch.head, branch=launch.branch, tree=launch.before)
            services = self._app.services(processes, repo.root)
            model = self._model(one.recording, repo.root, services)
            secret = secrets.token_urlsafe(16)
            async with open_server(model.app(secret), grace=0) as url:
                made = agent(self._app, services, f"{url}/{secret}")
                self._check(made, launch)
                outcome = await self._launch(made, model, launch, repo.root)
            other = model.finish()
            patch = () if other else await _compare(repo, launch)
        if outcome is not None and launch.ended and outcome.session:
            self._sessions[launch.ended] = outcome.session
        failure = outcome.failure.message if outcome and outcome.failure else ""
        return ReplayedLaunch(
            run=self._run.id,
            step=one.step,
            agent=launch.agent,
            version=launch.version,
            requests=model.asked,
            other=other,
            patch=patch,
            failure=failure,
        )

    def _model(self, recording: Recording, root: Path, services: Services) -> RecordedModel:
        launch, home = recording.launch, os.path.realpath(self._run.spec.repo)
        recorded = LaunchPlaces.of(repo=(launch.workspace, home), run=launch.folder)
        now = LaunchPlaces.of(repo=str(root), run=str(self.folder))
        instead = {launch.folder: str(self.folder), launch.workspace: str(root), home: str(root)}
        instead |= {slug(old): slug(new) for old, new in instead.items()}
        known = {old: new for old, new in self._sessions.items() if old != new}
        return RecordedModel(recording, recorded, now, {**instead, **known}, services.redactor)

    def _check(self, agent: Agent, launch: RecordedLaunch) -> None:
        """Refuse another version: it asks otherwise."""
        raise_problems(agent.check())
        here = agent.installation().version
        if here != launch.version:
            raise ToolMissing(
                f"The launch was recorded with {launch.agent} {launch.version}; here is {here}.",
                kept="Nothing was replayed.",
                hint=f"Install {launch.version}, or name it: agents.{launch.agent}.agent_cmd",
            )

    async def _launch(
        self, agent: Agent, model: RecordedModel, launch: RecordedLaunch, root: Path
    ) -> Outcome | None:
        """Run the agent to its end; None: it asked otherwise than recorded, and was ended."""
        session = self._sessions.get(launch.session or "", launch.session)
        limits = self._app.loaded.settings.limits.launch()
        labels = {"run": self._run.id, "task": "replay", "phase": launch.mode.value, "attempt": "1"}
        job = Job(
            launch.token,
            try_prompt(launch.prompt),
            root,
            launch.mode,
            launch.model,
            session,
            web=launch.web,
            limits=limits,
            labels=labels,
        )

        async def ignore(_event: Event) -> None:
            return

        working = asyncio.create_task(run_agent(agent, job, ignore))
        differing = asyncio.create_task(model.differs.wait())
        try:
            await asyncio.wait({working, differing}, return_when=asyncio.FIRST_COMPLETED)
            return await working if working.done() and not model.differs.is_set() else None
        finally:
            for task in (working, differing):
                task.cancel()
            await asyncio.gather(working, differing, return_exceptions=True)


@contextlib.contextmanager
def _fresh(folder: Path) -> Iterator[None]:
    """Leave no clone for the next launch, which begins with other files."""
    import shutil

    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _compare(repo: Repository, launch: RecordedLaunch) -> tuple[str, ...]:
    """Return how the work differs from what was recorded."""
    if not launch.after:
        return ()
    tree = await repo.tree(await repo.snapshot())
    if tree == launch.after:
        return ()
    try:
        lines = (await repo.diff(launch.after, tree)).splitlines()
    except SegueError:
        return (f"The recorded work ({launch.after[:12]}) is no longer in the repository.",)
    rest = len(lines) - _DIFF_LINES
    return (*lines[:_DIFF_LINES], *([f"[{rest} more lines differ]"] if rest > 0 else []))


def _make_claude(app: App, services: Services, url: str) -> Agent:
    options = read_options(ClaudeOptions, app.loaded.settings.agents.get("claude", {}))
    passed = [name for name in options.pass_env if name not in (*KEYS, ADDRESS)]
    plain = replace(options, pass_env=passed, own_config_dir=True, record=False)
    return ClaudeAgent(plain, services, {KEYS[0]: _KEY, ADDRESS: url})


def _make_codex(app: App, services: Services, url: str) -> Agent:
    options = read_options(CodexOptions, app.loaded.settings.agents.get("codex", {}))
    key = find_provider(options.config).env_key or KEY
    passed = [name for name in options.pass_env if name not in (key, KEY)]
    config = point_at(options.config, url)
    plain = replace(options, pass_env=passed, own_config_dir=True, record=False, config=config)
    return CodexAgent(plain, services, {key: _KEY})


_AGENTS = {"claude": _make_claude, "codex": _make_codex}
