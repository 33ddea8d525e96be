"""A place to run the real `segue` command in: a git repository, a plan, a home of its own."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from segue.domain.events import all_events
from tests.templates import make_template_folder
from tests.warm import run_segue, start_segue

SEGUE = [sys.executable, "-m", "segue"]
DEADLINE = 300.0

PLAN = """# Plan

## Task 1
Write one.

## Task 2
Write two.

## Task 3
Write three.
"""


def until(condition: Callable[[], object], what: str) -> None:
    """Wait for a condition, with a deadline.

    What is slow to find out and what takes long to happen is asked for less often: asking takes time from
    those who are waited for.
    """
    began = time.monotonic()
    while True:
        asked = time.monotonic()
        if condition():
            return
        now = time.monotonic()
        assert now - began < DEADLINE, f"waited in vain for: {what}"
        time.sleep(min(max(0.01, 9 * (now - asked), (now - began) / 20), 1.0))


@cache
def _template(plan: str) -> Path:
    """Return a repository whose one commit is the plan; a copy of it is cheaper than another."""
    return make_template({"plan.md": plan})


def make_template(files: Mapping[str, str]) -> Path:
    """Make a repository with one commit of these files."""
    folder = Path(tempfile.mkdtemp(dir=make_template_folder()))
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "GIT_"))}
    env["HOME"] = str(make_template_folder())
    for args in (
        ("init", "--quiet", "--initial-branch=main"),
        ("config", "user.name", "Tester"),
        ("config", "user.email", "tester@localhost"),
        ("config", "maintenance.auto", "false"),
        ("add", "--all"),
        ("commit", "--quiet", "-m", "plan"),
    ):
        subprocess.run(["git", *args], cwd=folder, env=env, check=True)
    for sample in (folder / ".git" / "hooks").glob("*.sample"):
        sample.unlink()
    return folder


@dataclass
class Place:
    """Where a test works."""

    root: Path
    env: dict[str, str] = field(default_factory=dict)
    patience: float = DEADLINE

    @property
    def repo(self) -> Path:
        return self.root / "repo"

    @property
    def gate(self) -> Path:
        """The file that an agent with `wait_for = "GATE"` waits for."""
        return self.root / "gate"

    @property
    def database(self) -> Path:
        return self.root / "state" / "segue" / "segue.db"

    @classmethod
    def make(cls, root: Path, plan: str = PLAN, template: Path | None = None) -> Place:
        place = cls(root)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("SEGUE_", "XDG_", "GIT_"))}
        place.env = {
            **kept,
            "SEGUE_ISOLATION": "none",
            "HOME": str(root / "home"),
            "XDG_STATE_HOME": str(root / "state"),
            "XDG_CONFIG_HOME": str(root / "config"),
            "SEGUE_TRUST": "1",
        }
        (root / "home").mkdir(parents=True)
        place.let_notes_count()
        shutil.copytree(template or _template(plan), place.repo)
        return place

    def let_notes_count(self) -> None:
        """Give the scripted agent a script, an empty one: then nobody is asked whether its notes are work."""
        script, settings = self.root / "config" / "notes.toml", self.root / "config" / "segue" / "config.toml"
        settings.parent.mkdir(parents=True)
        script.touch()
        settings.write_text(f"[agents.scripted]\nscript = {json.dumps(str(script))}\n")

    def use_sandbox(self) -> None:
        """Let agents work in the sandbox, as they do where nobody says otherwise."""
        del self.env["SEGUE_ISOLATION"]
        for folder in self.root.parents:
            if folder.parent == Path("/tmp"):
                os.utime(folder)  # of /tmp they are shown what is newest, and we make a lot there

    def git(self, *args: str) -> str:
        return subprocess.run(
            ["git", *args], cwd=self.repo, env=self.env, check=True, capture_output=True, text=True
        ).stdout

    def command(self, *args: str) -> list[str]:
        return [*SEGUE, *args]

    def segue(self, *args: str, code: int | None = 0, **env: str) -> subprocess.CompletedProcess[str]:
        done = run_segue(args, self.repo, {**self.env, **env}, self.patience)
        assert code is None or done.returncode == code, (
            f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        )
        return done

    def start(self, *args: str, **env: str) -> subprocess.Popen[str]:
        """Start segue and go on; its output goes to files, so that nobody has to read a pipe."""
        with (self.root / f"out-{time.monotonic_ns()}").open("w") as log:
            return start_segue(args, self.repo, {**self.env, **env}, log)

    def json(self, *args: str, code: int | None = 0, **env: str) -> Any:
        return json.loads(self.segue(*args, "--json", code=code, **env).stdout)["data"]

    def agents(self) -> dict[str, Any]:
        """What `segue doctor` says about each agent."""
        checks = self.json("doctor", code=None)["checks"]
        return {one["agent"]["name"]: one["agent"] for one in checks if one["agent"]}

    def script(self, text: str) -> None:
        """Give the scripted agent its behaviour, and make it the agent of the project.

        `GATE` stands for a file: a test creates it (`place.gate`) when it has seen the agent at work.
        """
        (self.root / "script.toml").write_text(text.replace("GATE", str(self.gate)))
        self.config('agent = "scripted"\n[agents.scripted]\nscript = "script.toml"\n')

    def jobs_at_work(self) -> int:
        """How many agents were started and have not ended."""
        jobs = [path.parent for path in (self.database.parent / "runs").glob("*/jobs/*/job.json")]
        return sum(not (job / "exit.json").exists() for job in jobs)

    def config(self, text: str) -> None:
        (self.root / "segue.toml").write_text(text)

    def more_config(self, text: str) -> None:
        old = (self.root / "segue.toml").read_text()
        (self.root / "segue.toml").write_text(text + old)

    def subjects(self) -> list[str]:
        return self.git("log", "--format=%s", "--reverse").splitlines()[1:]

    def rows(self, sql: str, *args: object) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.database)) as connection:
            return connection.execute(sql, args).fetchall()

    def own_all_runs(self) -> None:
        """Let runs that a test wrote into the database belong to this repository."""
        with closing(sqlite3.connect(self.database)) as connection, connection:
            change = "update orchestrator_runs set spec = json_set(spec, '$.repo', ?)"
            connection.execute(change, (str(self.repo),))

    def events(self, kind: str) -> list[dict[str, Any]]:
        """The data of all events of a kind, with the defaults that are not stored."""
        rows = self.rows("select data from orchestrator_events where type = ? order by seq", kind)
        fields = msgspec.structs.fields(all_events()[kind])
        unset = {f.encode_name: json.loads(msgspec.json.encode(f.default)) for f in fields if not f.required}
        return [{**unset, **json.loads(data)} for (data,) in rows]

    def started(self, key: str) -> bool:
        """Whether a step has begun; the database may not be there yet."""
        try:
            return bool(self.rows("select 1 from orchestrator_steps where key = ?", key))
        except sqlite3.OperationalError:
            return False

    def last_run(self) -> str:
        run: str = self.json("status")[0]["id"]
        return run

    def state_file(self) -> Path:
        found = list((self.database.parent / "plans").glob("*.json"))
        assert len(found) == 1
        return found[0]


def processes_with(marker: str) -> Iterator[int]:
    """The pids of living processes whose command line or environment holds the marker."""
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            text = (folder / "environ").read_bytes() + (folder / "cmdline").read_bytes()
            state = (folder / "stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if marker.encode() in text and state != "Z":
            yield int(folder.name)
