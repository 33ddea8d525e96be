"""Submitting to a fleet: what is refused, what a worker makes of it, which run `last` means."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from segue.domain.errors import UsageError
from segue.features.fleet.queue import QueueEntry, enqueue, key_of, make_queue, open_queue
from segue.features.fleet.schema import address_of, prepare
from segue.runtime.app import App
from tests.features.fleet.machines import Fleet


def test_work_comes_back_as_a_pushed_branch(fleet: Fleet) -> None:
    fleet.commit(segue__toml='gates = ["task"]\n')
    (run,) = fleet.submit("plan.md", "--agent", "scripted", "--task", "1", "--task", "2")
    assert fleet.state(run) == "queued"
    fleet.machine().start()
    fleet.until(run, "needs_human")
    assert len(fleet.events(run, "gate.reached")) == 1
    fleet.user.segue("resume", run)
    fleet.until(run, "done")
    assert len(fleet.events(run, "gate.passed")) == 1, "a person has resumed it"
    fleet.user.git("fetch", "--quiet", "origin")
    subjects = fleet.user.git("log", "--format=%s", f"origin/segue/{run}").splitlines()
    assert subjects == ["Task 2: Write two.", "Task 1: Write one.", "settings", "plan"]
    assert fleet.user.git("branch", "--format=%(refname:short)").split() == ["main"]
    (spec,) = fleet.ask("SELECT spec FROM orchestrator_runs WHERE id = %s", run)[0]
    assert spec["repo"] == spec["origin"]["url"] == str(fleet.remote)
    assert str(fleet.machines[0].root) not in str(spec), "nothing of a machine is stored"


def test_what_workers_would_not_see_is_refused(fleet: Fleet) -> None:
    (fleet.user.repo / "plan.md").write_text("## Task 1\nAnother.\n")
    assert "uncommitted changes: plan.md" in fleet.user.segue("submit", "plan.md", code=2).stderr
    fleet.user.git("checkout", "--quiet", "plan.md")
    (fleet.user.repo / "new").write_text("x")
    fleet.user.git("add", "new")
    fleet.user.git("commit", "--quiet", "-m", "not pushed")
    refused = fleet.user.segue("submit", "plan.md", code=2).stderr
    assert "workers could not fetch it" in refused
    assert "git push" in refused
    fleet.user.git("remote", "remove", "origin")
    assert "git remote add origin" in fleet.user.segue("submit", "plan.md", code=2).stderr
    assert fleet.ask("SELECT count(*) FROM orchestrator_runs") == [(0,)]


def test_secrets_do_not_travel(fleet: Fleet) -> None:
    given = {"SEGUE_AGENTS__COMMAND__ENV__API_TOKEN": "hunter2hunter2"}
    refused = fleet.user.segue("submit", "plan.md", code=2, **given)
    assert "Secrets never travel" in refused.stderr
    assert fleet.ask("SELECT count(*) FROM orchestrator_runs") == [(0,)]


def test_a_queued_run_is_stopped_without_a_worker(fleet: Fleet) -> None:
    (run,) = fleet.submit("plan.md", "--agent", "scripted")
    fleet.user.segue("stop", run)
    assert fleet.state(run) == "stopped"
    assert fleet.ask("SELECT count(*) FROM procrastinate.procrastinate_jobs WHERE status = 'todo'") == [(0,)]


def test_a_transaction_pooler_is_refused(tmp_path: Path) -> None:
    address = "postgresql://postgres.abc:secret@aws-0-eu-central-1.pooler.supabase.com:6543/postgres"
    with pytest.raises(UsageError, match="gives away connections after each transaction") as refused:
        address_of(App.load(tmp_path, command_line={"database_url": address}))
    assert "secret" not in refused.value.message
    assert "5432" in (refused.value.hint or "")


def test_a_job_that_others_took_over_meanwhile_is_no_error(fleet: Fleet) -> None:
    unseen: list[dict[str, Any]] = []

    async def drive(_run: str) -> None:
        """Find the job gone at the end, as a worker does that was frozen."""
        fleet.ask("DELETE FROM procrastinate_jobs WHERE status = 'doing' RETURNING id")

    async def work() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: unseen.append(context))
        queue = make_queue(fleet.url, drive)
        async with queue.open_async():
            entry = QueueEntry("run-1", key_of((), "https://example.org/a.git"))
            await enqueue(queue, [entry])
            await queue.run_worker_async(queues=[entry.key.name], wait=False, delete_jobs="always")
        gc.collect()  # a task that failed is reported when nobody can ask for its result any more

    asyncio.run(work())
    assert unseen == []
    assert fleet.ask("SELECT count(*) FROM procrastinate_jobs") == [(0,)]


def test_higher_priorities_come_first_and_nobody_waits_twice(postgres: str) -> None:
    prepare(postgres)

    async def main() -> list[str]:
        async with open_queue(postgres) as queue:
            key = key_of(["has:" + "x" * 80], "https://github.com/acme/" + "long" * 20)
            await enqueue(queue, [QueueEntry("one", key), QueueEntry("two", key, -1)])
            await enqueue(queue, [QueueEntry("three", key, 5), QueueEntry("one", key, 9)])
            rows = await queue.connector.execute_query_all_async(
                "SELECT args->>'run' AS run FROM procrastinate_jobs ORDER BY priority DESC, id"
            )
            return [row["run"] for row in rows]

    assert asyncio.run(main()) == ["three", "one", "two"]


def test_one_machine_notices_nothing() -> None:
    """Neither running nor looking imports anything of a fleet."""
    code = (
        "import sys; from segue.cli.run import run; from segue.cli.look import status; import segue.web.app;"
        "import segue.runtime.session, segue.runtime.open, segue.flow.phases;"
        "print([m for m in sys.modules if 'procrastinate' in m or m.startswith('segue.features.fleet.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
