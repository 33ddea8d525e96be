"""The runs that are killed: one small run of every flow, on either store, and what it must have achieved."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests import loopback
from tests.cli.cloud_place import HOSTED, Cloud
from tests.cli.place import Place, make_template
from tests.cli.test_build import GOAL, plan, step
from tests.cli.test_spec import SPEC
from tests.fakes.cursor_cloud import make_app
from tests.fakes.model import serve_model
from tests.fakes.serving import serve

PLAN = "## Task 1\nWrite one.\n\n## Task 2\nWrite two.\n"
TASKS = "# Tasks\n\n## Phase 1: Greet\n\n- [ ] T001 Greet\n- [ ] T002 Test it\n"
WORK = """
[[on]]
phase = "execute"
append = { "started" = "{task}/{attempt}\\n" }
write = { "f{task}" = "the work of {task}" }
"""
SIDE_BY_SIDE = f"{PLAN}\n## Task 3\nWrite three.\n\n## Task 4\nWrite four, after Task 1.\n"
WORK_APART = WORK.replace('"started"', '"started-{task}"')
REVIEWER = '[review]\nreviewer = "command"\n[reviewers.command]\nargv = ["true"]\nformat = "exit-code"\n'


@dataclass(frozen=True)
class KilledFlow:
    """A run of one flow: how it is started, and what it comes to."""

    name: str
    command: tuple[str, ...] = ("run", "plan.md")
    settings: str = ""
    tables: str = ""
    script: str = WORK
    tasks: tuple[str, ...] = ("1", "2")
    subjects: tuple[str, ...] = ("Task 1: Write one.", "Task 2: Write two.")
    """Its commits."""
    scores: tuple[str, ...] = ()
    """Files in the repository that Segue writes and does not commit."""
    launches: int = 2
    """How many steps it has that launch an agent, a reviewer or a judge."""


_FEATURE = "specs/001-greeting"

FLOWS = {
    flow.name: flow
    for flow in (
        KilledFlow("execute"),
        KilledFlow("review", settings='flow = "review"\n', tables=REVIEWER, launches=4),
        KilledFlow("plan", settings='flow = "plan"\n', tables=REVIEWER, launches=6),
        KilledFlow(
            "spec",
            ("run", _FEATURE),
            'judged_by = "checks"\nchecks = [["test", "-f", "started"]]\n',
            tasks=("T001", "T002"),
            subjects=("Task T001: Greet", "Task T002: Test it"),
            scores=(f"{_FEATURE}/tasks.md", f"{_FEATURE}/state.json"),
            launches=4,
        ),
        KilledFlow(
            "build",
            ("run", GOAL),
            script=plan(step("a"), step("b")) + WORK,
            subjects=("Task 1: Make a", "Task 2: Make b"),
            launches=5,
        ),
        KilledFlow(
            "cloud",
            ("run", _FEATURE),
            tasks=("T001", "T002"),
            subjects=(),
            scores=(f"{_FEATURE}/tasks.md", f"{_FEATURE}/state.json"),
            launches=4,
        ),
        KilledFlow("worktree", ("run", "plan.md", "--worktree"), 'worktree_end = "merge"\n'),
        KilledFlow(
            "lanes",
            settings="jobs = 3\n",
            script=WORK_APART,
            tasks=("1", "2", "3", "4"),
            subjects=(
                *("Task 1: Write one.", "Task 2: Write two."),
                *("Task 3: Write three.", "Task 4: Write four, after Task 1."),
            ),
            launches=4,
        ),
    )
}
"""The five flows that come with Segue, one of them with agents in the cloud too, a run in a work tree of its
own that is merged at the end, and one that works on several tasks at once."""


@contextmanager
def open_place(flow: KilledFlow, root: Path, database: str) -> Iterator[Place]:
    """Yield a repository in which the flow can be run; `database` is the URL of a Postgres, or empty."""
    place = Place.make(root, SIDE_BY_SIDE if flow.name == "lanes" else PLAN, _template(flow.name))
    place.script(flow.script)
    if flow.name == "build":  # in an empty folder
        shutil.rmtree(place.repo)
        place.repo.mkdir()
        (root / "home" / ".gitconfig").write_text("[user]\nname = Tester\nemail = tester@localhost\n")
    with _serve(place) if flow.name == "cloud" else nullcontext():
        url = f'database_url = "{database}"\n' if database else ""
        place.more_config(url + flow.settings)
        with (root / "segue.toml").open("a") as file:
            file.write(flow.tables)
        yield place


@contextmanager
def _serve(place: Place) -> Iterator[None]:
    """Serve cloud agents, which push to a repository beside the user's, and a judge."""
    bare = place.root / "hosted.git"
    subprocess.run(["git", "clone", "-q", "--bare", str(place.repo), str(bare)], check=True, env=place.env)
    place.git("remote", "add", "origin", str(bare))
    with serve(make_app({}, {HOSTED: bare})) as service, serve_model({"judge": {"default": True}}) as judge:
        (place.root / "service").write_text(service)
        Cloud(place, service, judge)
        yield


def count_cloud_agents(place: Place) -> int:
    """Return how many agents the service has started."""
    with loopback.client(headers={"Authorization": "Bearer crsr_test"}) as client:
        found = client.get(f"{(place.root / 'service').read_text()}/v1/agents").json()
    return len(found["items"])


@cache
def _template(name: str) -> Path:
    files = {"plan.md": SIDE_BY_SIDE if name == "lanes" else PLAN}
    if name in ("spec", "cloud"):
        files = {".specify/init-options.json": "{}"}
        files |= {f"{_FEATURE}/tasks.md": TASKS, f"{_FEATURE}/spec.md": SPEC}
    return make_template(files)
