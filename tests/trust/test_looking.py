"""Looking never executes: commands and pages over clones that somebody prepared."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from segue.cli.main import cli
from segue.web.routes import list_pages
from tests.cli.place import Place
from tests.trust.hostile import CLONES, SECRET, Trap, trapped
from tests.web.place import serving

LOOKING = {
    "run": ("run plan.md --dry-run", "run plan.md --dry-run --json", "run --dry-run", "run specs --dry-run"),
    "task list": ("task list plan.md", "task list --json", "task list specs", "task list"),
    "task graph": ("task graph plan.md",),
    "status": ("status", "status last", "status last --json"),
    "proof": ("proof last", "proof last --json"),
    "logs": ("logs last", "logs last --json"),
    "report": ("report", "report gaps", "report --json"),
    "doctor": ("doctor", "doctor --json"),
    "trust": ("trust --show", "trust --show --json", "trust"),
    "config list": ("config list", "config list --json"),
    "config schema": ("config schema",),
    "bridge list": ("bridge list",),
    "bridge protocol": ("bridge protocol",),
    "bridge show": ("bridge show last",),
    "db path": ("db path",),
    "db export": ("db export runs",),
    "db query": ("db query select+1", "db query select+*+from+segue_runs --format json"),
    "gc": ("gc --dry-run",),
}
"""Commands that only look, and how they are called. The page, `serve`, has a test of its own."""

ACTING = frozenset(
    (
        *(
            "resume",
            "stop",
            "task accept",
            "task skip",
            "task say",
            "check",
            "check rls",
            "demo",
            "init",
            "try",
        ),
        *("notify test", "bridge resume", "bridge run", "bridge serve", "relay", "proxy"),
        *(
            "relay serve",
            "relay token",
            "proxy config",
            "proxy key",
        ),
        *(
            "db push",
            "db supabase",
        ),
        *(
            "rehearse",
            "experiment",
            "serve",
            "mcp",
            "follow",
        ),
        *("fleet init", "fleet status", "submit", "worker"),
    )
)
"""Commands that do something: in an untrusted project they are refused where its settings matter."""

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def list_commands(command: click.Command = cli, words: tuple[str, ...] = ()) -> Iterator[str]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from list_commands(found, (*words, name))
        if not command.invoke_without_command:
            return
    yield " ".join(words)


def test_every_command_is_known_to_look_or_to_act() -> None:
    assert {*LOOKING, *ACTING} == set(list_commands()) - {""}


@pytest.fixture
def trap(tmp_path: Path) -> Iterator[Trap]:
    """A clone that its user has worked in before it became hostile."""
    place = Place.make(tmp_path)
    with trapped(place) as trap:
        place.segue("run", "plan.md", "--agent", "scripted", "--task", "1")
        (place.repo / "trial.toml").write_text('prompts = ["Build a small thing"]\nagents = ["scripted"]\n')
        yield trap


@pytest.mark.parametrize("clone", ["settings", "sizes"])
def test_a_look_starts_nothing_and_stays_inside(trap: Trap, clone: str) -> None:
    CLONES[clone](trap)
    for calls in LOOKING.values():
        for call in calls:
            done = trap.place.segue(*(word.replace("+", " ") for word in call.split()), code=None)
            said = done.stdout + done.stderr
            assert not trap.ran.exists(), f"{call} ran {trap.ran.read_text()}"
            assert not trap.was_called(), f"{call} connected"
            assert done.returncode in (0, 2), f"{call}: {said}"
            assert re.search("segue: unexpected|Traceback", said) is None, f"{call}: {said}"
            assert CONTROL.search(said) is None, f"{call}: {said!r}"
            assert SECRET not in said, f"{call}: {said}"
            assert "never-given-away" not in said, call
    assert not (trap.place.repo / "planted").exists()
    assert not (trap.place.root / "planted.log").exists()


REFUSED = (
    *(
        "run plan.md",
        "rehearse plan.md",
        "resume",
        "check",
        "check rls",
        "notify test",
        "try scripted hi",
        "bridge serve",
    ),
    *("bridge run hi", "relay token", "proxy key", "db push"),
    *("stop", "gc", "task skip 1 --reason x", "experiment trial.toml"),
)


def test_what_acts_is_refused_before_it_starts(trap: Trap) -> None:
    CLONES["settings"](trap)
    for call in REFUSED:
        done = trap.place.segue(*call.split(), code=2)
        assert "segue trust --repo" in done.stderr, call
        assert not trap.ran.exists(), call
        assert not trap.was_called(), call


def test_a_rehearsal_runs_nothing_that_the_clone_names(trap: Trap) -> None:
    CLONES["git"](trap)
    trap.place.segue("rehearse", "plan.md", "--task", "1", code=None)
    assert not trap.ran.exists()


def test_the_trap_works(trap: Trap) -> None:
    CLONES["git"](trap)
    subprocess.run(
        ["git", "status"], cwd=trap.place.repo, env=trap.place.env, check=False, capture_output=True
    )
    assert "canary.sh" in trap.ran.read_text()


@pytest.mark.parametrize("clone", ["settings"])
def test_no_page_starts_anything_or_shows_what_is_outside(trap: Trap, clone: str) -> None:
    CLONES[clone](trap)
    run = trap.place.json("status")[0]["id"]
    with serving(trap.place) as served:
        for page in list_pages():
            path = page.path.replace("{run}", run)
            for name, value in {"task": "1", "name": "prompt", "conversation": "x"}.items():
                path = path.replace(f"{{{name}}}", value)
            paths = dict.fromkeys(path.replace("{seq}", str(seq)) for seq in range(1, 9))
            assert "{" not in "".join(paths), path
            for address in [one + end for one in paths for end in ("", ".json")]:
                answer = served.get(address)
                assert answer.status_code in (200, 404), f"{address}: {answer.text}"
                assert SECRET not in answer.text, address
                assert not trap.ran.exists(), f"{address} ran {trap.ran.read_text()}"
                assert not trap.was_called(), f"{address} connected"
                if not address.endswith(".json"):
                    assert CONTROL.search(answer.text) is None, f"{address}: {answer.text!r}"
