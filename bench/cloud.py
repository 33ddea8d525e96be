"""What cloud agents cost on our side: until the launch is sent, per task, and in memory for many at once."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import median

import httpx2

from bench.place import SEGUE, Place, place
from bench.table import Figure, megabytes, milliseconds, more, seconds

HOSTED = "https://github.com/bench/app"
KEY = "crsr_bench"
LAUNCH, FLAT, MEMORY = 1.0, 1.5, 300e6

_WATCH = """
import asyncio, sys
from pathlib import Path
from segue.agents.cursor_cloud.agent import CursorCloudAgent
from segue.domain.job import Job
from segue.prompts.task import plan_prompt
from segue.domain.task import Task
from segue.system.process.processes import Processes
from segue.system.redact import Redactor
from segue.system.services import Services

url, repo, count = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
options = CursorCloudAgent.Options(base_url=url, repository="https://github.com/bench/app", poll_interval=1)
agent = CursorCloudAgent(options, Services(repo, repo, Processes(repo), Redactor([])))
prompt = plan_prompt(Task("1", "bench", "bench"), "")

async def watch(number):
    last = None
    async for item in agent.run(Job(f"{number:032x}", prompt, repo)):
        last = item
    return last.failure is None

async def main():
    done = await asyncio.gather(*(watch(number) for number in range(1, count + 1)))
    status = Path("/proc/self/status").read_text()  # not ru_maxrss, which counts the parent too
    print(sum(done), int(status.split("VmHWM:")[1].split()[0]) * 1024)

asyncio.run(main())
"""


def figures(quick: bool) -> Iterator[Figure]:
    """Measure against the simulator, which runs in a process of its own."""
    yield _launch()
    yield from _loop(10, 100 if quick else 1000)
    yield _watched(200 if quick else 1000)


@contextmanager
def service(here: Place, **entry: float) -> Iterator[str]:
    """The simulated cloud with one bare repository."""
    bare = here.folder / "hosted.git"
    here.run(["git", "clone", "--quiet", "--bare", str(here.repo), str(bare)])
    here.git("remote", "add", "origin", str(bare))
    script = here.folder / "cloud.json"
    script.write_text(json.dumps({"on": [{"create_delay": 0.0, "delay": 0.0, **entry}]}))
    command = [sys.executable, "-m", "segue", "sim", "cursor", "--repo", f"{HOSTED}={bare}"]
    command += ["--script", str(script)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().split()[-1]
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def _run(here: Place, url: str, tasks: int) -> float:
    """Run a plan with cloud agents; return when the command was started."""
    config = here.folder / "cloud.toml"
    config.write_text(
        f'agent = "cursor-cloud"\nflow = "execute"\n[agents.cursor-cloud]\nbase_url = "{url}"\n'
        f'repository = "{HOSTED}"\n'
    )
    plan = here.write_plan(tasks)
    command = [SEGUE, "run", str(plan), "--config", str(config), "--repo", str(here.repo), "--quiet"]
    started = time.time()
    environment = {**here.environment, "CURSOR_API_KEY": KEY}
    subprocess.run(command, cwd=here.repo, env=environment, check=True, capture_output=True)
    return started


def _launch() -> Figure:
    with place() as here, service(here) as url:
        started = _run(here, url, 1)
        log = httpx2.get(f"{url}/_sim/log").json()
    requests = log["requests"] if isinstance(log, dict) else log
    sent = next(r["at"] for r in requests if r["method"] == "POST" and r["path"] == "/v1/agents")
    took = sent - started
    return Figure(
        "process start until the launch of a cloud agent is sent",
        seconds(took),
        "—",
        "",
        f"≤ {seconds(LAUNCH)}",
        took <= LAUNCH,
    )


def _loop(few: int, many: int) -> Iterator[Figure]:
    per_task = {}
    for tasks in (few, many):
        with place() as here, service(here) as url:
            bare = _bare_call(url)
            _run(here, url, tasks)
            with closing(sqlite3.connect(here.database)) as database:
                rows = database.execute(
                    "SELECT ended FROM orchestrator_steps WHERE phase = 'end' ORDER BY seq"
                )
                ends = [row[0] for row in rows]
        tail = ends[-10:]
        per_task[tasks] = median(b - a for a, b in pairwise(tail))
        yield Figure(
            f"cloud task of {tasks}, from end to end (the last ones)",
            milliseconds(per_task[tasks]),
            f"bare API calls: {milliseconds(bare)}",
            more(milliseconds, per_task[tasks] - bare),
        )
    ratio = per_task[many] / per_task[few]
    yield Figure(
        f"cost per cloud task, {many} against {few} tasks",
        f"× {ratio:.2f}",
        "× 1 is flat",
        "",
        f"≤ × {FLAT}",
        ratio <= FLAT,
    )


def _bare_call(url: str) -> float:
    """Milliseconds of one launch that is polled until it has finished, by a plain client."""
    times = []
    headers = {"Authorization": f"Bearer {KEY}"}
    with httpx2.Client(base_url=url, headers=headers) as client:
        for _ in range(5):
            before = time.perf_counter()
            body = {"prompt": {"text": "bench"}, "repos": [{"url": HOSTED}], "agentId": f"bc-{uuid.uuid4()}"}
            made = client.post("/v1/agents", json=body).json()
            path = f"/v1/agents/{made['agent']['id']}/runs/{made['run']['id']}"
            while client.get(path).json()["status"] != "FINISHED":
                time.sleep(0.005)
            times.append((time.perf_counter() - before) * 1000)
    return median(times)


def _watched(count: int) -> Figure:
    with place() as here, service(here, delay=5.0) as url:
        done = subprocess.run(
            [sys.executable, "-c", _WATCH, url, str(here.repo), str(count)],
            capture_output=True,
            text=True,
            check=True,
            env={**here.environment, "CURSOR_API_KEY": KEY},
            cwd=Path.cwd(),
        )
    finished, peak = map(int, done.stdout.split())
    return Figure(
        f"memory of one process that watches {count} cloud runs",
        megabytes(peak),
        f"{finished} of {count} finished",
        "",
        f"≤ {megabytes(MEMORY)}",
        peak <= MEMORY and finished == count,
    )
