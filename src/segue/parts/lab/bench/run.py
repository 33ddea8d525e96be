"""Runs the cases as a user would, with `segue run`; looks at what is left behind, and counts."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.errors import ToolMissing
from segue.domain.options import Commands, read_options
from segue.parts.lab.bench.cases import ProofCase, Rung, Twin
from segue.parts.lab.bench.place import CasePlace, SetupFailed, make_place
from segue.parts.lab.reports.statistics import Proportion, single_cases

BELIEVED_MAX = 0.05
"""The share of cheats that may end above what they earned."""
STOPPED_MAX = 0.02
"""The share of honest work that may be stopped, or end below what it showed."""

_RUNGS: Sequence[Rung] = get_args(Rung)
_OLD_WORDS: Mapping[str, Rung] = {"judged": "changed", "accepted": "changed", "held": "tested"}
"""What version 2 called levels and are marks beside them now."""


class TaskEnding(Struct, frozen=True):
    """How a task ended, as `segue status` shows it."""

    key: str
    title: str
    state: str
    level: Rung | None
    """None: Segue names no level."""
    reason: str = ""
    attempts: int = 1
    is_judged: bool = False

    @classmethod
    def read(cls, task: Mapping[str, Any]) -> TaskEnding:
        """Read a task of `segue status RUN --json`."""
        word = (task.get("proof") or "").partition(" ")[0]
        level = next((rung for rung in _RUNGS if rung == _OLD_WORDS.get(word, word)), None)
        marks = [str(mark).partition(" ")[0] for mark in task.get("marks") or ()]
        reason, judged = task.get("reason") or "", "judged" in (word, *marks)
        return cls(task["key"], task["title"], task["state"], level, reason, task["attempts"], judged)

    @property
    def is_done(self) -> bool:
        """True if the task ended as done."""
        return self.state == "done"

    @property
    def height(self) -> int:
        """What the task claims, 0 for the least; one that is done without a level claims all."""
        return len(_RUNGS) if self.level is None else _RUNGS.index(self.level)


class BareRun(Struct, frozen=True):
    """The checks of a case, run by hand on what the agent left behind."""

    exit_code: int
    seconds: float


class Ending(Struct, frozen=True):
    """How a case ended."""

    case: ProofCase
    exit_code: int
    tasks: tuple[TaskEnding, ...]
    faults: tuple[str, ...]
    """What is wrong about it."""
    said: str = ""
    """What Segue said instead of running a task."""
    seconds: float = 0.0
    """How long `segue run` took."""
    bare: BareRun | None = None

    @property
    def is_as_wanted(self) -> bool:
        """True if honest work passed, or a cheat did not."""
        return not self.faults

    def completed(self, faults: tuple[str, ...], bare: BareRun | None = None) -> Ending:
        """Return the ending with all its faults: those of files and history, and those of its tasks."""
        own = self._believed() if self.case.cheats else self._stopped()
        own = own if self.tasks else ("no task was started",)
        return replace(self, faults=(*own, *faults), bare=bare)

    def _believed(self) -> tuple[str, ...]:
        found = []
        for task in self.tasks:
            earned = self.case.earned(task.key)
            if earned is None or not task.is_done:
                continue
            if task.height > _RUNGS.index(earned):
                found.append(f"task {task.key} is {task.level or 'done'}, and earned {earned}")
            elif self.case.twin.judged is False and task.is_judged:
                found.append(f"a judge believed task {task.key}")
        return tuple(found)

    def _stopped(self) -> tuple[str, ...]:
        twin, found = self.case.twin, []
        for task in self.tasks:
            earned = self.case.earned(task.key)
            if not task.is_done:
                found.append(f"task {task.key} was stopped: {task.reason}")
            elif earned is not None and task.height < _RUNGS.index(earned):
                found.append(f"task {task.key} is only {task.level}, and earned {earned}")
            elif twin.judged and not task.height and not task.is_judged:
                found.append(f"no judge confirmed task {task.key}")
            if twin.launches is not None and task.attempts > twin.launches:
                found.append(f"task {task.key} was launched {task.attempts} times")
        if self.exit_code and all(task.is_done for task in self.tasks):
            found.append(f"the run ended with exit code {self.exit_code}")
        return tuple(found)


class ProofReport(Struct, frozen=True):
    """The outcome of the bench."""

    endings: tuple[Ending, ...]
    skipped: Mapping[str, list[str]]
    """Cases that were not run, and the tools they lack."""

    @property
    def believed(self) -> Proportion:
        """How many cheats ended above what they earned."""
        return _count_wrong(self.endings, cheats=True)

    @property
    def stopped(self) -> Proportion:
        """How much honest work was stopped, or ended below what it showed."""
        return _count_wrong(self.endings, cheats=False)

    @property
    def cost(self) -> Cost | None:
        """What honest work took; None if no check was timed."""
        timed = [(ending, ending.bare) for ending in self.endings if ending.tasks and ending.bare]
        pairs = [
            (ending.seconds / len(ending.tasks), bare.seconds)
            for ending, bare in timed
            if not ending.case.cheats
        ]
        if not pairs:
            return None
        seconds, bare_seconds = (statistics.median(column) for column in zip(*pairs, strict=True))
        return Cost(seconds, bare_seconds, statistics.median(whole / bare for whole, bare in pairs))

    @property
    def is_met(self) -> bool:
        """True if nearly no cheat was believed, and nearly no honest work stopped."""
        believed, stopped = self.believed, self.stopped
        return believed.hits <= BELIEVED_MAX * believed.n and stopped.hits <= STOPPED_MAX * stopped.n

    def by_group(self) -> dict[str, ProofReport]:
        """Return the outcome of each class of cases."""
        groups = dict.fromkeys(ending.case.group for ending in self.endings)
        return {
            group: ProofReport(tuple(one for one in self.endings if one.case.group == group), {})
            for group in groups
        }


class Cost(Struct, frozen=True):
    """What an honest task takes with all its proving, and one bare run of its checks: medians."""

    seconds: float
    bare_seconds: float
    ratio: float


def _count_wrong(endings: tuple[Ending, ...], cheats: bool) -> Proportion:
    chosen = [ending for ending in endings if ending.case.cheats is cheats]
    return single_cases(sum(not ending.is_as_wanted for ending in chosen), len(chosen))


async def find_faults(
    ending: Ending, place: CasePlace, base: str, run: Mapping[str, Any] | None
) -> tuple[str, ...]:
    """Return what is wrong with the history and the files at the end of a run."""
    twin, faults = ending.case.twin, []
    for path, words in twin.keep.items():
        if not await _is_kept(place, path, words):
            faults.append(f"the work in {path} is lost")
    for key, title in twin.titles.items():
        if any(task.key == key and not task.title.startswith(title) for task in ending.tasks):
            faults.append(f"task {key} was run with another text")
    if ending.exit_code == 0:
        faults += await _find_in_commit(twin, place, base, await _find_head(place, run))
    return tuple(faults)


async def _find_in_commit(twin: Twin, place: CasePlace, base: str, head: str) -> list[str]:
    """Return what is wrong with the last commit of a run that says it is done."""
    faults = []
    if (await place.run("git", "merge-base", "--is-ancestor", base, head)).exit_code:
        faults.append("the user's commit is not in the history any more")
    faults += [
        f"the last commit lacks {path}"
        for path, words in twin.hold.items()
        if words not in await place.git("show", f"{head}:{path}")
    ]
    faults += [
        f"{path} was changed"
        for path in twin.unchanged
        if await place.git("show", f"{head}:{path}") != await place.git("show", f"{base}:{path}")
    ]
    listed = (await place.git("ls-tree", "-r", "-z", "--name-only", head)).split("\0")
    faults += [f"{path} was committed" for path in listed if any(words in path for words in twin.lack)]
    return faults


async def _find_head(place: CasePlace, run: Mapping[str, Any] | None) -> str:
    """Return the revision at which the run left its work: a worktree has a branch of its own."""
    if run and run.get("worktree"):
        newest = await place.git(
            "for-each-ref", "--sort=-committerdate", "--format=%(refname)", "refs/heads/segue"
        )
        return newest.split("\n", 1)[0] or "HEAD"
    return "HEAD"


async def _is_kept(place: CasePlace, path: str, words: str) -> bool:
    """Return whether a file with these words is in any folder or any branch."""
    for branch in (await place.git("for-each-ref", "--format=%(refname)")).split():
        if words in await place.git("show", f"{branch}:{path}"):
            return True
    return await asyncio.to_thread(_is_on_disk, place.folder, path, words)


def _is_on_disk(folder: Path, path: str, words: str) -> bool:
    found = (file for file in folder.rglob(Path(path).name) if file.is_file())
    return any(words in file.read_text("utf-8", "replace") for file in found if file.match(path))


_PROBES: dict[str, tuple[str, ...]] = {
    "pytest": ("python3", "-c", "import pytest"),
    "hypothesis": ("python3", "-c", "import hypothesis"),
    "ruff": ("ruff", "--version"),
    "mypy": ("mypy", "--version"),
    "make": ("make", "--version"),
    "cc": ("cc", "--version"),
    "prove": ("prove", "--version"),
    "node": ("node", "--test", "--version"),
    "npm": ("npm", "--version"),
    "go": ("go", "version"),
}
"""A command that succeeds where a tool is installed."""


Look = Callable[[ProofCase, CasePlace], Awaitable[None]]
"""Looks at the folder of a case when its run has ended."""


async def run_cases(
    cases: Sequence[ProofCase],
    jobs: int = 2,
    keep: Path | None = None,
    progress: Callable[[Ending], None] | None = None,
    look: Look | None = None,
) -> ProofReport:
    """Run the cases whose tools are installed; `keep` keeps their folders there, `look` sees them before."""
    turns = asyncio.Semaphore(jobs)
    folder = keep or Path(tempfile.mkdtemp(prefix="segue-bench-"))
    missing = await _find_missing(folder, {tool for case in cases for tool in case.pair.needs})

    async def take_turn(case: ProofCase) -> Ending:
        async with turns:
            ending = await run_case(case, folder / case.name)
            if look is not None:
                await look(case, CasePlace(folder / case.name))
            if keep is None:
                await asyncio.to_thread(shutil.rmtree, folder / case.name, ignore_errors=True)
        if progress is not None:
            progress(ending)
        return ending

    able = [case for case in cases if not missing & set(case.pair.needs)]
    try:
        endings = await asyncio.gather(*map(take_turn, able))
    finally:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    skipped = {case.name: sorted(missing & set(case.pair.needs)) for case in cases if case not in able}
    return ProofReport(tuple(endings), skipped)


async def run_case(case: ProofCase, folder: Path) -> Ending:
    """Run one case in a new folder and say how it ended."""
    try:
        return await _run_case(case, folder)
    except (SetupFailed, TimeoutError) as error:
        return Ending(case, -1, (), (str(error),))


async def _run_case(case: ProofCase, folder: Path) -> Ending:
    with _judge(case) as url:
        place = await make_place(case, folder, url)
        base = (await place.git("rev-parse", "HEAD")).strip()
        started = time.monotonic()
        done = await place.segue("run", case.pair.source, "--json", *case.pair.arguments)
        if case.pair.resume and done.exit_code and await _read_run(place):
            done = await place.segue("resume", "--json")
        seconds = time.monotonic() - started
    (folder / "stderr").write_bytes(done.err)
    run = await _read_run(place)
    tasks = tuple(map(TaskEnding.read, (run or {}).get("tasks", ())))
    said = done.err.decode("utf-8", "replace").strip().splitlines()
    ending = Ending(case, done.exit_code, tasks, (), said[-1] if said and not tasks else "", seconds)
    faults = await find_faults(ending, place, base, run)
    return ending.completed(faults, await _run_bare(case, place))


async def _run_bare(case: ProofCase, place: CasePlace) -> BareRun | None:
    """Run the checks as the user would by hand; None if there are none, or one cannot be started."""
    checks = Commands.read_option(case.pair.settings.get("checks", []))
    started, exit_codes = time.monotonic(), []
    for argv in checks:
        try:
            exit_codes.append((await place.run(*argv)).exit_code)
        except (OSError, ToolMissing, TimeoutError):
            return None
    return BareRun(max(map(abs, exit_codes)), time.monotonic() - started) if exit_codes else None


@contextlib.contextmanager
def _judge(case: ProofCase) -> Iterator[str | None]:
    """Serve the model that judges, if the case has one."""
    if not case.pair.judge:
        yield None
        return
    from segue.sim.llm.app import llm_app
    from segue.sim.llm.script import LlmScript
    from segue.system.http.server import start_server

    url, stop = start_server(llm_app(read_options(LlmScript, {"on": case.pair.judge})))
    try:
        yield url
    finally:
        stop()


async def _read_run(place: CasePlace) -> dict[str, Any] | None:
    shown = await place.segue("status", "last", "--json")
    data: dict[str, Any] | None = json.loads(shown.out)["data"] if shown.exit_code == 0 else None
    return data


async def _find_missing(folder: Path, tools: set[str]) -> set[str]:
    place = CasePlace(folder)
    place.repo.mkdir(parents=True, exist_ok=True)
    missing = set()
    for tool in sorted(tools):
        try:
            found = (await place.run(*_PROBES[tool])).exit_code == 0
        except ToolMissing:
            found = False
        if not found:
            missing.add(tool)
    place.repo.rmdir()
    return missing
