"""A fleet on one machine: a submitter and workers, each with a home, a state folder and clones of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg

from segue.features.fleet.schema import prepare
from tests.cli.place import SEGUE, Place, processes_with, until

SLOW_AGENT = (
    'agent = "command"\n[agents.command]\n'
    'argv = ["sh", "-c", "echo $SEGUE_JOB >> {log}; until [ -e {gate} ] || [ -e {gate}-$SEGUE_TASK ]; '
    'do sleep 0.2; done; echo x > f$SEGUE_TASK"]\n'
)
ALLOW = '[worker]\nallow_repos = ["*"]\nallow_settings = ["agents.*"]\n'


class Machine:
    """One `segue worker` and everything it starts."""

    def __init__(self, root: Path, url: str, settings: str = ALLOW) -> None:
        self.root = root
        self.state = root / "state" / "segue"
        self.log = root / "worker.log"
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("SEGUE_", "XDG_", "GIT_"))}
        self.env = {
            **kept,
            **{"HOME": str(root / "home"), "XDG_STATE_HOME": str(root / "state")},
            **{"XDG_CONFIG_HOME": str(root / "config"), "SEGUE_ISOLATION": "none"},
            **{"SEGUE_DATABASE_URL": url, "GIT_COMMITTER_NAME": "Worker", "GIT_AUTHOR_NAME": "Worker"},
            **{"GIT_COMMITTER_EMAIL": "worker@localhost", "GIT_AUTHOR_EMAIL": "worker@localhost"},
        }
        (root / "home").mkdir(parents=True)
        (root / "config" / "segue").mkdir(parents=True)
        (root / "config" / "segue" / "config.toml").write_text(settings)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *args: str) -> Machine:
        """Start the worker."""
        argv = [*SEGUE, "worker", *args]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                argv, cwd=self.root / "home", env=self.env, stdout=log, stderr=log, start_new_session=True
            )
        return self

    def pids(self) -> list[int]:
        """Everything that runs on this machine."""
        return list(processes_with(str(self.root)))

    def kill(self) -> None:
        """Switch the machine off."""
        for _ in range(3):  # what was being started meanwhile
            for pid in self.pids():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self._reap()

    def freeze(self) -> list[int]:
        """Stop every process, as when a laptop is closed."""
        pids = self.pids()
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        return pids

    def thaw(self) -> None:
        """Continue every process."""
        for pid in self.pids():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def end(self, number: int = signal.SIGTERM) -> None:
        """Tell the worker to end, and wait for that."""
        assert self.process is not None
        self.process.send_signal(number)
        assert self.process.wait(300) == 0, self.said

    def has_agent(self) -> bool:
        """Whether an agent that waits at the gate runs here."""
        return any("until [" in _command(pid) for pid in self.pids())

    @property
    def said(self) -> str:
        """What the worker printed."""
        return self.log.read_text() if self.log.exists() else ""

    def _reap(self) -> None:
        if self.process is not None:
            self.process.wait()


class Fleet:
    """A database, somebody who submits, and machines."""

    def __init__(self, root: Path, url: str, plan: str) -> None:
        self.root, self.url = root, url
        self.user = Place.make(root / "user", plan)
        self.user.env["SEGUE_DATABASE_URL"] = url
        self.machines: list[Machine] = []
        self.remote = root / "remote.git"
        subprocess.run(["git", "clone", "-q", "--bare", str(self.user.repo), str(self.remote)], check=True)
        self.user.git("remote", "add", "origin", str(self.remote))
        self.user.git("fetch", "--quiet", "origin")
        prepare(url)

    def machine(self, settings: str = ALLOW) -> Machine:
        """Add a machine, on which nothing runs yet."""
        number = len(self.machines) + 1
        machine = Machine(self.root / f"machine{number}", self.url, settings)
        self.machines.append(machine)
        return machine

    def pushed(self, run: str) -> list[str]:
        """The subjects of the commits that a run has pushed, the newest first."""
        self.user.git("fetch", "--quiet", "origin")
        return self.user.git("log", "--format=%s", f"main..origin/segue/{run}").splitlines()

    def commit(self, **files: str) -> None:
        """Commit files in the user's repository; double underscores are dots."""
        for name, text in files.items():
            (self.user.repo / name.replace("__", ".")).write_text(text)
        self.user.git("add", "--all")
        self.user.git("commit", "--quiet", "-m", "settings")
        self.user.git("push", "--quiet", "origin", "HEAD:main")
        self.user.git("fetch", "--quiet", "origin")

    def submit(self, *args: str) -> list[str]:
        """Submit runs, and return their ids."""
        found: list[str] = self.user.json("submit", *args)["runs"]
        return found

    def ask(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Ask the database."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("SET search_path TO public, procrastinate")
            return connection.execute(sql, values or None).fetchall()

    def state(self, run: str) -> str:
        """The state of a run."""
        found: str = self.ask("SELECT state FROM orchestrator_runs WHERE id = %s", run)[0][0]
        return found

    def age_lease(self, run: str) -> None:
        """Let the lease of a run be nearly over, as if its machine had died a while ago."""
        self.ask("UPDATE orchestrator_runs SET lease = lease - 25000 WHERE id = %s RETURNING 1", run)

    def until(self, run: str, *states: str) -> None:
        """Wait until a run is in one of these states."""
        until(lambda: self.state(run) in states, f"run {run} is {states}; workers said: {self.said}")

    @property
    def said(self) -> str:
        """What all workers printed."""
        return "\n".join(machine.said for machine in self.machines)

    def steps(self, run: str, key: str) -> list[tuple[Any, ...]]:
        """The state and the output of a step."""
        return self.ask(
            "SELECT state, output FROM orchestrator_steps WHERE run_id = %s AND key = %s", run, key
        )

    def events(self, run: str, kind: str) -> list[dict[str, Any]]:
        """The data of all events of a kind."""
        sql = "SELECT data FROM orchestrator_events WHERE run_id = %s AND type = %s ORDER BY seq"
        return [data if isinstance(data, dict) else json.loads(data) for (data,) in self.ask(sql, run, kind)]

    def close(self) -> None:
        """Switch everything off."""
        for machine in self.machines:
            machine.thaw()
            machine.kill()


def gate(fleet: Fleet) -> tuple[Path, Path]:
    """Let agents of the project write a line when they begin, and work only when the gate is open.

    `gate-KEY` opens it for one task.
    """
    log, gate = fleet.root / "launches", fleet.root / "gate"
    fleet.commit(segue__toml=SLOW_AGENT.format(log=log, gate=gate))
    return log, gate


def launches(log: Path) -> int:
    """How many agents have begun."""
    return len(log.read_text().splitlines()) if log.exists() else 0


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""


def make_fleet(root: Path, url: str, plan: str) -> Iterator[Fleet]:
    """A fleet for one test."""
    fleet = Fleet(root, url, plan)
    try:
        yield fleet
    finally:
        fleet.close()
