"""Runs the cases, a few side by side, as a user would: with the command `segue run`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from segue.domain.errors import ToolMissing
from segue.domain.options import read_options
from segue.parts.lab.bench.cases import ProofCase
from segue.parts.lab.bench.faults import find_faults
from segue.parts.lab.bench.place import CasePlace, SetupFailed, make_place
from segue.parts.lab.bench.report import Ending, ProofReport, TaskEnding

_PROBES: dict[str, tuple[str, ...]] = {
    "pytest": ("python3", "-c", "import pytest"),
    "make": ("make", "--version"),
    "node": ("node", "--test", "--version"),
    "npm": ("npm", "--version"),
    "go": ("go", "version"),
}
"""A command that succeeds where a tool is installed."""


async def run_cases(
    cases: Sequence[ProofCase],
    jobs: int = 2,
    keep: Path | None = None,
    progress: Callable[[Ending], None] | None = None,
) -> ProofReport:
    """Run the cases whose tools are installed; `keep` keeps their folders there."""
    turns = asyncio.Semaphore(jobs)
    folder = keep or Path(tempfile.mkdtemp(prefix="segue-bench-"))
    missing = await _find_missing(folder, {tool for case in cases for tool in case.pair.needs})

    async def take_turn(case: ProofCase) -> Ending:
        async with turns:
            ending = await run_case(case, folder / case.name)
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
    started = time.monotonic()
    with _judge(case) as url:
        place = await make_place(case, folder, url)
        base = (await place.git("rev-parse", "HEAD")).strip()
        done = await place.segue("run", case.pair.source, "--json", *case.pair.arguments)
        if case.pair.resume and done.exit_code and await _read_run(place):
            done = await place.segue("resume", "--json")
    (folder / "stderr").write_bytes(done.err)
    run = await _read_run(place)
    tasks = tuple(map(TaskEnding.read, (run or {}).get("tasks", ())))
    said = done.err.decode("utf-8", "replace").strip().splitlines()
    ending = Ending(case, done.exit_code, tasks, (), said[-1] if said and not tasks else "")
    faults = await find_faults(ending, place, base, run)
    return ending.completed(faults, time.monotonic() - started)


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
