"""What the page of each wish begins with works as printed, from a fresh home, against the simulators."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from docs import generate

from segue.store import connect
from tests.cli.cloud_place import HOSTED, open_cloud
from tests.cli.place import Place
from tests.cli.test_build import plan, step
from tests.fakes import stet
from tests.fakes.cursor_cli import write_cli
from tests.features.bridge.conftest import open_bridge

GUIDES = generate.ROOT / "docs" / "guides"
BEGIN = re.compile(r"# .*\n\n((?:```(?:toml|console)\n(?:.*\n)*?```\n\n)+)")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
DROPPED = ("SEGUE_", "XDG_", "GIT_", "OPENAI_", "ANTHROPIC_", "CURSOR_", "LITELLM_")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@dataclass
class Newcomer:
    """Somebody with a fresh home who types what a page begins with; keys are made up, questions answered."""

    place: Place
    own: str = ""
    """Settings of their own: where the simulators are."""
    env: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(DROPPED)}
        root = self.place.root
        home = root / "fresh"
        home.mkdir()
        stet.write_program(root / "sims", root / "stet.json")
        write_cli(root / "sims", root / "agent.toml")
        shim = root / "sims" / "segue"
        shim.write_text(
            '#!/bin/sh\n[ "$1" = trust ] && set -- "$@" --yes\n'
            f'exec {shlex.quote(sys.executable)} -m segue "$@"\n'
        )
        shim.chmod(0o755)
        (home / ".gitconfig").write_text("[user]\nname = Me\nemail = me@example.org\n")
        self.env = {
            **kept,
            "HOME": str(home),
            "PATH": f"{root / 'sims'}{os.pathsep}{kept['PATH']}",
            "SEGUE_ISOLATION": "none",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        }

    def plays(self, script: str) -> None:
        """Say what the stand-in for the Cursor CLI does."""
        (self.place.root / "agent.toml").write_text(script)

    def types(self, page: str, folder: Path, swaps: Mapping[str, str] | None = None, port: int = 0) -> str:
        """Type the lines that the page begins with; return what was printed.

        `swaps` says what is called otherwise here; something in the background listens on the port.
        """
        config = self.place.root / "fresh" / ".config" / "segue" / "config.toml"
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(self.own)
        begin = BEGIN.match((GUIDES / page).read_text("utf-8"))
        assert begin, "the page begins with what to type"
        text = begin[1].replace("=…", "=key_made_up")
        for old, new in (swaps or {}).items():
            assert old in text
            text = text.replace(old, new)
        lines = []
        for kind, block in BLOCK.findall(text):
            if kind == "toml":
                (folder / "segue.toml").write_text(block)
            lines += re.findall(r"^\$ (.*)", block, re.MULTILINE)
        assert 4 <= len(lines) <= 5
        typed = [line for line in lines if not line.startswith("packaging/")]
        wait = f"until curl -s http://127.0.0.1:{port} >/dev/null; do kill -0 $!; sleep 0.1; done"
        script = "\n".join(f"{line}\n{wait}" if re.search(r" &( *#|$)", line) else line for line in typed)
        done = subprocess.run(
            ["bash", "-e", "-c", f"trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{script}"],
            cwd=folder,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr


@pytest.fixture
def fresh(tmp_path: Path) -> Place:
    return Place.make(tmp_path)


def test_spec_kit_on_cursor_cloud(fresh: Place) -> None:
    with open_cloud(fresh) as cloud:
        fresh.git("mv", "specs/001-greeting", "specs/001-login")
        (fresh.repo / "segue.toml").write_text('checks = ["true"]\n')
        fresh.git("add", "--all")
        fresh.git("commit", "--quiet", "-m", "Rename")
        fresh.git("push", "--quiet", "origin", "trunk")
        own = f'base_url = "{cloud.url}"\nrepository = "{HOSTED}"\npoll_interval = 0.2\n'
        me = Newcomer(fresh, f'[judge]\nbase_url = "{cloud.judge}/v1"\n[agents.cursor-cloud]\n{own}')
        said = me.types("cursor-cloud.md", fresh.repo)
        assert "3 tasks; nothing was launched." in said
        assert len(cloud.launches()) == 3
        assert "[ ]" not in (fresh.repo / "specs" / "001-login" / "tasks.md").read_text()


def test_delegating_by_printed_commands(fresh: Place) -> None:
    port, ran, folder = free_port(), fresh.root / "ran", fresh.root / "elsewhere"
    folder.mkdir()
    with open_bridge(fresh) as bridge:
        delegate = "SUBAGENT: repo=github.com/me/app, prompt=Add it\nLOCAL_ACTION: backup_script"
        bridge.replies(delegate, "All done.")
        actions = f'[relay]\nport = {port}\n[relay.actions.backup_script]\nargv = ["touch", "{ran}"]\n'
        cloud = f'[agents.cursor-cloud]\nbase_url = "{bridge.url}"\npoll_interval = 0.2\n'
        me = Newcomer(fresh, actions + cloud)
        said = me.types("bridge.md", folder, {"/my-app": "/app", "8754": str(port)}, port)
        assert "All done." in said
        assert len(bridge.launches()) == 2
        assert ran.exists()


def test_actions_on_this_machine(fresh: Place) -> None:
    port, ran = free_port(), fresh.root / "ran"
    me = Newcomer(fresh, f"[relay]\nport = {port}\n")
    swaps = {"/home/me/bin/backup.sh": f'touch", "{ran}', "8754": str(port)}
    assert '"ok":true' in me.types("relay.md", fresh.repo, swaps, port).replace(" ", "")
    assert ran.exists()


def test_one_prompt_to_a_project_and_a_dataset(fresh: Place, postgres: str) -> None:
    me, folder = Newcomer(fresh), fresh.root / "projects"
    folder.mkdir()
    verdict = {"criteria": [{"key": "1/AC1", "met": True, "evidence": "price = 3"}], "action": "PROCEED"}
    me.plays(
        plan(step("a", "schema", acceptance=["a works"]))
        + f"[[on]]\nphase = \"verify\"\nsay = '{json.dumps(verdict)}'\n"
        + '[[on]]\nphase = "execute"\nwrite = { "shop.py" = "price = 3\\n" }\n'
    )
    said = me.types("building.md", folder, {"postgresql://…": f"'{postgres}'"})
    assert "total  " in said
    assert (folder / "todo" / "shop.py").exists()
    with connect(postgres, read_only=True) as store:
        (run,) = store.runs()
    assert run.state == "done", "the dataset is in Postgres"


def test_a_cli_agent_as_a_litellm_model(fresh: Place) -> None:
    me, port = Newcomer(fresh), free_port()
    me.plays('[[on]]\nsay = "Hello, I am an agent."\n')
    swaps = {"127.0.0.1:4000": f"127.0.0.1:{port}", "segue proxy &": f"segue proxy --port {port} &"}
    assert "Hello, I am an agent." in me.types("litellm.md", fresh.repo, swaps, port)


def test_a_plan_with_the_cursor_cli_and_stet(fresh: Place) -> None:
    me = Newcomer(fresh)
    (fresh.repo / "segue.toml").write_text('[review]\nreviewer = "stet"\n')
    fresh.git("add", "--all")
    fresh.git("commit", "--quiet", "-m", "Settings")
    said = me.types("reviewing.md", fresh.repo)
    assert "3 done" in said
    assert "3 review 1" in said
    (state,) = (fresh.root / "fresh").rglob("plans/*.json")
    assert json.loads(state.read_text())["completed_task_indices"] == [1, 2, 3]
