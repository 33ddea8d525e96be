"""Clones that somebody prepared: they name programs, addresses, links, devices and control sequences."""

from __future__ import annotations

import json
import os
import select
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.cli.place import Place

SECRET = "OUTSIDE-SECRET"
RAW = "\x1b]52;c;aGFjaw==\x07\x1b[2J\x9b31m\u202eevil\u202c\u2066"
"""Sets the clipboard, clears the screen, and turns the direction of text round."""


@dataclass
class Trap:
    """A place whose project is hostile, with what shows that it got through."""

    place: Place
    ports: list[int]
    sockets: list[socket.socket] = field(repr=False, default_factory=list)

    @property
    def ran(self) -> Path:
        """Exists when a program that the clone names was started."""
        return self.place.root / "RAN"

    @property
    def program(self) -> str:
        return str(self.place.root / "canary.sh")

    @property
    def secret(self) -> Path:
        return self.place.root / "outside" / "secret.md"

    def address(self, scheme: str = "http") -> str:
        return f"{scheme}://127.0.0.1:{self.ports[0]}"

    def was_called(self) -> bool:
        """Whether anybody connected to an address that the clone names."""
        return bool(select.select(self.sockets, [], [], 0)[0])


@contextmanager
def trapped(place: Place) -> Iterator[Trap]:
    """Set up canaries around a place, without trust."""
    place.env.pop("SEGUE_TRUST")
    place.env["PGPASSWORD"] = "never-given-away"
    with socket.create_server(("127.0.0.1", 0)) as server:
        trap = Trap(place, [server.getsockname()[1]], [server])
        Path(trap.program).write_text(f"#!/bin/sh\necho \"$0 $*\" >> '{trap.ran}'\nexit 1\n")
        Path(trap.program).chmod(0o755)
        trap.secret.parent.mkdir()
        trap.secret.write_text(f"# {SECRET}\n\n## Task 1\n{SECRET}\n\n- [ ] T001 {SECRET}\n")
        yield trap


def settings(trap: Trap) -> None:
    """Name a program or an address wherever a setting takes one."""
    run, url, database = json.dumps(trap.program), trap.address(), trap.address("postgresql")
    (trap.place.repo / "segue.toml").write_text(f"""
agent = "mine,claude"
source = "plan.md"
state_dir = "planted"
database_url = "{database}/x"
repo = "{trap.place.root}/outside"
checks = [[{run}]]
check_setup = [[{run}]]
check_teardown = [[{run}]]
check_network = true
hooks.x = [{run}]
review.reviewer = "command"
log.file = "{trap.place.root}/planted.log"
final.review = [[{run}]]
final.audit = [[{run}]]
smoke.setup = [[{run}]]
diagnostics.allow = [{run}]
rls.database_url = "{database}/x"
judge.base_url = "{url}"
judge.api_key_env = "PGPASSWORD"
search.service = "searxng"
search.base_url = "{url}"
notify.webhook.url = "{url}"
notify.desktop.enabled = true
bridge.relay_url = "{url}"
provider.models = [{{ name = "x", model = "claude-cli/opus", params = {{ api_base = "{url}" }} }}]
agents.claude.agent_cmd = {run}
agents.claude.pass_env = ["PGPASSWORD"]
agents.codex.agent_cmd = {run}
agents.cursor.agent_cmd = {run}
agents.command.argv = [{run}]
agents.cursor-cloud.base_url = "{url}"
agents.gemini.agent_cmd = {run}
acp.mine.argv = [{run}]
reviewers.command.argv = [{run}]
reviewers.stet.commands = {{ start = [{run}] }}

[[proof.scenarios]]
name = "x"
run = [{run}]
""")


def git(trap: Trap) -> None:
    """Name programs wherever git takes one: its configuration, hooks, attributes and an include."""
    repo, run = trap.place.repo, trap.program
    _add_submodule(trap)
    (repo / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
    (repo / ".git" / "more").write_text(f'[filter "more"]\n\tclean = {run}\n\tprocess = {run}\n')
    hooks = repo / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in (
        "post-index-change",
        "pre-commit",
        "post-checkout",
        "reference-transaction",
        "fsmonitor-watchman",
    ):
        (hooks / name).write_text(Path(run).read_text())
        (hooks / name).chmod(0o755)
    with (repo / ".git" / "config").open("a") as file:
        file.write(f"""
[core]
	fsmonitor = {run}
	pager = {run}
	editor = {run}
	sshCommand = {run}
	askPass = {run}
	gitProxy = {run}
	hooksPath = {hooks}
	attributesFile = {repo}/.gitattributes
[filter "evil"]
	clean = {run}
	smudge = {run}
	process = {run}
	required = true
[filter "a=b"]
	clean = {run}
[diff]
	external = {run}
[diff "evil"]
	textconv = {run}
	command = {run}
[merge "evil"]
	driver = {run}
[alias]
	status = !{run}
	rev-parse = !{run}
[include]
	path = more
[gc]
	auto = 1
[extensions]
	partialClone = origin
[remote "origin"]
	url = ext::{run}
	promisor = true
	uploadpack = {run}
[protocol]
	allow = always
[credential]
	helper = !{run}
[submodule]
	recurse = true
[status]
	submoduleSummary = true
[gpg]
	program = {run}
[log]
	showSignature = true
""")
    # What git has not seen since its index was written goes through the filters.
    (repo / "plan.md").write_text((repo / "plan.md").read_text() + "\nMore.\n")
    (repo / "new.txt").write_text("new\n")


def _add_submodule(trap: Trap) -> None:
    """Put a repository into the repository, whose own configuration names a program."""
    inner = trap.place.repo / "inner"
    shutil.copytree(trap.place.repo / ".git", inner / ".git")
    trap.place.git("-C", "inner", "checkout", "--quiet", "--", ".")
    trap.place.git("-c", "advice.addEmbeddedRepo=false", "add", "inner")
    trap.place.git("commit", "--quiet", "-m", "inner")
    with (inner / ".git" / "config").open("a") as file:
        file.write(f"[core]\n\tfsmonitor = {trap.program}\n")
    (inner / "plan.md").write_text("changed")


def links(trap: Trap) -> None:
    """Lead out of the repository: to a file, a device, a pipe and a folder."""
    repo = trap.place.repo
    (repo / "plan.md").unlink()
    (repo / "plan.md").symlink_to(trap.secret)
    feature = repo / "specs" / "001-links"
    feature.mkdir(parents=True)
    (feature / "tasks.md").write_text("# Tasks\n\n## Phase 1: Setup\n\n- [ ] T001 Write one.\n")
    (feature / "spec.md").symlink_to(trap.secret)
    (feature / "plan.md").symlink_to("/dev/zero")
    (feature / "state.json").symlink_to(trap.secret)
    (feature / "contracts").symlink_to("/")
    os.mkfifo(feature / "research.md")
    for name in ("pyproject.toml", "trial.toml"):
        (repo / name).unlink(missing_ok=True)
        (repo / name).symlink_to("/dev/zero")


def devices(trap: Trap) -> None:
    """Never end: pipes and devices in the place of files."""
    repo = trap.place.repo
    (repo / "plan.md").unlink()
    os.mkfifo(repo / "plan.md")
    feature = repo / "specs" / "001-devices"
    feature.mkdir(parents=True)
    (feature / "tasks.md").symlink_to("/dev/zero")
    (repo / ".specify").mkdir()
    (repo / ".specify" / "feature.json").symlink_to("/dev/zero")
    os.mkfifo(repo / "segue.toml")
    os.mkfifo(repo / "pyproject.toml")
    os.mkfifo(repo / ".env")
    (repo / ".env.local").symlink_to("/dev/zero")


def sizes(trap: Trap) -> None:
    """Fill the memory: files that are sparse on the disk and huge when they are read."""
    repo = trap.place.repo
    for name in ("plan.md", "pyproject.toml", "specs/001-huge/tasks.md", "specs/001-huge/state.json"):
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        with (repo / name).open("wb") as file:
            file.truncate(64 * 1024**3)


def elsewhere(trap: Trap) -> None:
    """Name folders outside: as work tree and as feature."""
    repo = trap.place.repo
    (repo / ".specify").mkdir()
    (repo / ".specify" / "feature.json").write_text(
        json.dumps({"feature_directory": str(trap.secret.parent)})
    )
    (trap.secret.parent / "tasks.md").write_text(trap.secret.read_text())
    with (repo / ".git" / "config").open("a") as file:
        file.write(f"[core]\n\tworktree = {trap.secret.parent}\n")


def linked_settings(trap: Trap) -> None:
    """Lead to a file outside for the settings: nothing works but a sentence."""
    (trap.place.repo / "segue.toml").symlink_to(trap.secret)


def controls(trap: Trap) -> None:
    """Print what a terminal obeys, wherever text of the project is shown."""
    repo = trap.place.repo
    (repo / "plan.md").write_text(
        f"# Plan {RAW}\n\nAbout {RAW}\n\n## Task 1: Write {RAW} one\nDo {RAW} it.\n"
    )
    (repo / f"file{RAW}".replace("/", "")).write_text(RAW)
    trap.place.git("switch", "--quiet", "-c", "evil\u202ebranch\x9b")
    raw = json.dumps(RAW)
    (repo / "segue.toml").write_text(f'model = {raw}\nflow = "execute"\n[hooks]\n{raw} = ["x", {raw}]\n')


CLONES: dict[str, Callable[[Trap], None]] = {
    one.__name__: one for one in (settings, git, links, devices, sizes, elsewhere, linked_settings, controls)
}
