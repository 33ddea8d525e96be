"""Small data sets written by hand, on either database, of which the right figures are known."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from segue.store import connect
from segue.store.database import open_database
from segue.store.encoding import encode, escape

Row = tuple[Any, ...]

RUN = ("id", "source_key", "kind", "spec", "state", "created", "updated")
STEP = (
    *("run_id", "key", "gen", "seq", "task", "phase", "attempt", "agent", "model", "state", "token", "input"),
    *("output", "started", "ended", "tries", "owner", "build_phase"),
)
EVENT = ("run_id", "seq", "ts", "step", "type", "data")
ACTIONS = ("RETRY", "WEB_SEARCH", "RUN_DIAGNOSTIC", "MODIFY_PLAN", "SKIP", "STOP")
TOOLS = {"B": "Bash", "R": "Read", "E": "Edit", "W": "Write", "S": "WebSearch"}
BEGIN = 1_790_000_000_000


@dataclass
class Written:
    """Collects rows; `write` puts them into a database."""

    runs: list[Row] = field(default_factory=list)
    steps: list[Row] = field(default_factory=list)
    events: list[Row] = field(default_factory=list)

    def run(
        self,
        name: str,
        state: str = "done",
        source: str = "Build a todo app",
        agent: str = "claude",
        model: str | None = "opus",
        kind: str = "build",
        trial: Any = None,
        **titles: str,
    ) -> WrittenRun:
        """Add a run; later runs are newer."""
        created = BEGIN + len(self.runs) * 1_000_000
        spec: dict[str, Any] = {
            "source_kind": "prompt",
            "source": source,
            "repo": "/r",
            "agent": agent,
            "model": model,
        }
        named = {key.removeprefix("t"): title for key, title in titles.items()}
        spec |= {"flow": "build", "titles": named, "kind": kind, **({"trial": trial} if trial else {})}
        self.runs.append((name, source, kind, encode(spec), state, created, created + 900_000))
        facts = {"source": source, "repo": "/r", "agent": agent, "flow": "build"}
        return WrittenRun(self, name, created).event(None, "run.started", **facts)

    def write(self, address: str) -> str:
        """Make the tables and fill them."""
        connect(address).disconnect()
        database = open_database(address)
        try:
            with database.transaction():
                database.append("orchestrator_runs", RUN, storable(self.runs))
                database.append("orchestrator_steps", STEP, storable(self.steps))
                database.append("orchestrator_events", EVENT, storable(self.events))
        finally:
            database.close()
        return address


def storable(rows: list[Row]) -> list[Row]:
    """Text as the store writes it: Postgres refuses some of it; JSON is escaped already."""
    return [tuple(escape(cell) if isinstance(cell, str) else cell for cell in row) for row in rows]


@dataclass
class WrittenRun:
    """One run, step by step; each step takes ten seconds."""

    all: Written
    name: str
    clock: int
    seq: int = 0
    task: str = "1"
    build_phase: str | None = None
    begun: set[str] = field(default_factory=set)

    def on(self, task: str, build_phase: str | None = None) -> WrittenRun:
        """What follows belongs to this task."""
        self.task, self.build_phase = task, build_phase
        return self

    def event(self, step: str | None, kind: str, /, **data: Any) -> WrittenRun:
        self.seq += 1
        self.all.events.append((self.name, self.seq, self.clock, step, kind, encode(data)))
        return self

    def step(
        self,
        phase: str,
        attempt: int = 1,
        state: str = "done",
        gen: int = 1,
        tools: str = "",
        launched: bool = False,
        by: tuple[str, str | None] = ("claude", "opus"),
        **output: Any,
    ) -> WrittenRun:
        self.begin_task()
        key = f"task/{self.task}/{phase}/{attempt}"
        facts = {"gen": gen, "token": "t", "task": self.task, "phase": phase, "attempt": attempt}
        self.event(key, "step.started", **facts, agent=by[0], model=by[1])
        seq, began = self.seq, self.clock
        for number, letter in enumerate(tools):
            call = {"name": TOOLS[letter], "id": f"call{number}", "input": {}}
            self.event(key, "agent.tool", **call, state="started")
            self.event(key, "agent.tool", **call, state="completed", status="success")
        self.clock += 10_000
        if launched:
            self.event(key, "prompt", digest="d", length=1)
            self.event(key, "agent.ended", ok=state == "done", usage=output.get("usage"))
        if state != "started":
            self.event(key, "step.ended", gen=gen, ok=state == "done", ms=10_000)
        ended = None if state == "started" else self.clock
        self.all.steps.append(
            (
                *(self.name, key, gen, seq, self.task, phase, attempt, *by, state, "t"),
                encode({"prompt": "d"} if launched else {}),
                *(encode(output), began, ended, 1, "o", self.build_phase),
            )
        )
        return self

    def begin_task(self) -> None:
        if self.task not in self.begun:
            self.begun.add(self.task)
            self.event(None, "task.started", task=self.task, title=f"Task {self.task}")

    def execute(self, attempt: int = 1, tools: str = "", **output: Any) -> WrittenRun:
        """A launch that edits; tools are told by letters: Bash, Read, Edit, Write."""
        return self.launch("execute", attempt, tools, **output)

    def resolve(self, attempt: int = 1, tools: str = "", **output: Any) -> WrittenRun:
        return self.launch("resolve", attempt, tools, **output)

    def launch(self, phase: str, attempt: int, tools: str, state: str = "done", **output: Any) -> WrittenRun:
        result = "PASS" if state == "done" else "FAIL"
        verdict = {"result": result, "action": "PROCEED", "reason": ""}
        given = {"failure": None, "verdict": verdict, **output}
        return self.step(phase, attempt, state, tools=tools, launched=True, **given)

    def verify(
        self, attempt: int, result: str, action: str = "PROCEED", reason: str = "because"
    ) -> WrittenRun:
        criteria = [{"key": "task", "met": result == "PASS", "evidence": "x"}]
        verdict = {"result": result, "action": action, "reason": reason, "criteria": criteria}
        state = "done" if result == "PASS" else "failed"
        return self.step("verify", attempt, state, verdict=verdict, failure=None)

    def end(self, done: bool = True, reason: str = "done", **more: Any) -> WrittenRun:
        """The end of the task; a person decides if the reason says so."""
        self.begin_task()
        facts = {"task": self.task, "done": done, "reason": reason, **more}
        if reason.startswith("accepted"):
            return self.event(f"task/{self.task}/end", "task.marked", **facts, by="person")
        return self.event(None, "task.ended", **facts, skipped=reason.startswith("skipped"))

    def passes(self) -> WrittenRun:
        """The task is done at once."""
        return self.execute().verify(1, "PASS").end()


def busy(runs: int = 40) -> Written:
    """Runs in which everything happens, by chance."""
    chance = random.Random(11)
    data = Written()
    for number in range(runs):
        state = chance.choice(["done", "done", "needs_human", "failed", "stopped", "running"])
        agent, model = chance.choice([("claude", "opus"), ("codex", None), ("cursor", "auto")])
        titles = {"t1": "Set up", "t2": chance.choice(["Row level security", "Row-Level Security (RLS)"])}
        run = data.run(f"run-{number}", state, f"Build {number % 3}", agent, model, **titles)
        for task, phase in (("1", "setup"), ("2", "schema"), ("3", None)):
            _carry(run.on(task, phase), chance)
    return data


def _carry(run: WrittenRun, chance: random.Random) -> None:
    usage = {"input_tokens": chance.randrange(9000), "output_tokens": 7, "cost_usd": chance.random()}
    tools = "".join(chance.choices("RBEWS", k=chance.randrange(9)))
    run.execute(1, tools, usage=chance.choice([usage, None]), model=chance.choice(["m-1", None]))
    for number in range(1, 4):
        result = chance.choice(["PASS", "FAIL", "PARTIAL"])
        action = "PROCEED" if result == "PASS" else chance.choice(ACTIONS)
        run.verify(number, result, action, f"Zeile {number}: ärger with “{chance.randrange(3)}”")
        if result == "PASS" or chance.random() < 0.2:
            break
        if chance.random() < 0.5:
            message = f"{chance.choice(['Error', 'error', 'Ärger'])} in 'x{chance.randrange(99)}'"
            run.event(f"task/{run.task}/verify/{number}", "error", kind="EXIT_ERROR", message=message)
        query = f"supabase {chance.choice(['auth', 'Auth', 'realtime'])} docs"
        run.event(
            None, "search", task=run.task, query=query, source="agent", results=[{"url": "https://a.org/x"}]
        )
        run.resolve(number, "RE", state=chance.choice(["done", "failed"]))
    run.end(chance.random() < 0.7, chance.choice(["done", "skipped: no need"]))
