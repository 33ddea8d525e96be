"""Which programs Segue starts itself, and what they see: nothing that an agent can write."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from segue.system.reach import Reach, cut_variables, tree_around


class Machine:
    """A machine in a folder: a system, a home and a repository, with programs that are never started."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home, self.work, self.state = root / "home", root / "home/work", root / "state"
        for name in ("git", "bwrap", "ssh", "python3", "sh"):
            self.program(f"usr/bin/{name}")
        self.repository("home/work")
        self.given: list[Path] = []
        """What agents may write, beside the work tree."""
        self.here = self.work

    def repository(self, name: str) -> Path:
        (self.root / name / ".git").mkdir(parents=True, exist_ok=True)
        return self.root / name

    def program(self, name: str, mode: int = 0o755) -> str:
        place = self.root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("#!/bin/sh\n")
        place.chmod(mode)
        return str(place)

    def link(self, name: str, target: str) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).symlink_to(target if target.startswith(".") else self.root / target)

    def find(self, program: str, path: Sequence[str]) -> str | None:
        """Return which program Segue would start, from the root of this machine."""
        tree = tree_around(self.here)
        reach = Reach([*([tree] if tree else []), *self.given])
        entries = [one if one.startswith(".") or not one else str(self.root / one) for one in path]
        found = reach.find(program, os.pathsep.join(entries))
        return str(Path(found).relative_to(self.root)) if found else None


Story = Callable[[Machine], tuple[str, Sequence[str]]]
USR = "usr/bin"


def activated(name: str) -> Story:
    def story(machine: Machine) -> tuple[str, Sequence[str]]:
        machine.program(f"home/work/.venv/bin/{name}")
        return name, ("home/work/.venv/bin", USR)

    return story


def entry(text: str) -> Story:
    def story(machine: Machine) -> tuple[str, Sequence[str]]:
        machine.program("home/work/git")
        machine.program("home/work/bin/git")
        return "git", (text, USR)

    return story


def linked_folder(machine: Machine) -> tuple[str, Sequence[str]]:
    machine.program("home/work/tools/git")
    machine.link("home/bin", "home/work/tools")
    return "git", ("home/bin", USR)


def link_out_of_the_tree(machine: Machine) -> tuple[str, Sequence[str]]:
    machine.program("opt/bin/git")
    machine.link("home/work/bin", "opt/bin")
    return "git", ("home/work/bin", USR)


def dots_behind_a_link(machine: Machine) -> tuple[str, Sequence[str]]:
    machine.program("home/work/git")
    machine.program("home/git")
    (machine.work / "tools").mkdir()
    machine.link("home/bin", "home/work/tools")
    return "git", ("home/bin/..", USR)  # which is home/work


def pyenv(machine: Machine) -> tuple[str, Sequence[str]]:
    machine.repository("home/.pyenv")  # it is a clone
    machine.program("home/.pyenv/shims/python3")
    return "python3", ("home/.pyenv/shims", "home/.pyenv/bin", USR)


def homebrew(machine: Machine) -> tuple[str, Sequence[str]]:
    machine.repository("opt/homebrew")
    machine.program("opt/homebrew/Cellar/git/2/bin/git")
    machine.link("opt/homebrew/bin/git", "../Cellar/git/2/bin/git")
    return "git", ("opt/homebrew/bin", USR)


def dotfiles_agent(machine: Machine) -> tuple[str, Sequence[str]]:
    machine.here = machine.repository("home")
    machine.program("home/.local/bin/claude")
    return "claude", ("home/.local/bin", USR)


def all_in_tmp(machine: Machine) -> tuple[str, Sequence[str]]:
    machine.root.chmod(0o1777)
    machine.program("job/bin/git")
    return "git", ("job/bin", USR)


def shared_folder(mode: int) -> Story:
    def story(machine: Machine) -> tuple[str, Sequence[str]]:
        machine.program("scratch/git")
        (machine.root / "scratch").chmod(mode)
        return "git", ("scratch", USR)

    return story


def shared_parent(machine: Machine) -> tuple[str, Sequence[str]]:
    machine.program("scratch/mine/bin/git")
    (machine.root / "scratch").chmod(0o777)
    return "git", ("scratch/mine/bin", USR)


def lane(machine: Machine) -> tuple[str, Sequence[str]]:
    machine.program("state/worktrees/run-lane-1/.venv/bin/git")
    machine.given.append(machine.state / "worktrees")
    return "git", ("state/worktrees/run-lane-1/.venv/bin", USR)


def main_tree_of_a_worktree(machine: Machine) -> tuple[str, Sequence[str]]:
    machine.here = machine.home / "feature"
    machine.here.mkdir()
    (machine.here / ".git").write_text("gitdir: elsewhere\n")
    machine.program("home/work/.venv/bin/git")
    return "git", ("home/work/.venv/bin", USR)


def only_in_the_tree(machine: Machine) -> tuple[str, Sequence[str]]:
    machine.program("home/work/tools/bin/gh")
    return "gh", ("home/work/tools/bin", USR)


CASES: dict[str, tuple[Story, str | None]] = {
    "an activated environment with git": (activated("git"), "usr/bin/git"),
    "the current folder": (entry("."), "usr/bin/git"),
    "a relative entry": (entry("./bin"), "usr/bin/git"),
    "a link to a folder in the tree": (linked_folder, "usr/bin/git"),
    "a link out of the tree": (link_out_of_the_tree, "usr/bin/git"),
    "dots behind a link": (dots_behind_a_link, "usr/bin/git"),
    "a tool that is in the tree alone": (only_in_the_tree, None),
    "pyenv, which is a clone": (pyenv, "home/.pyenv/shims/python3"),
    "Homebrew, which is a repository": (homebrew, "opt/homebrew/bin/git"),
    "an agent in a home that is the work tree": (dotfiles_agent, None),
    "everything in a temporary folder": (all_in_tmp, "job/bin/git"),
    "a folder that everybody may write": (shared_folder(0o777), "usr/bin/git"),
    "below a folder that everybody may write": (shared_parent, "usr/bin/git"),
    "a lane": (lane, "usr/bin/git"),
    "the main tree, seen from a linked one": (main_tree_of_a_worktree, "home/work/.venv/bin/git"),
}


@pytest.mark.parametrize("case", CASES)
def test_which_program_is_started(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path)
    story, expected = CASES[case]
    program, path = story(machine)
    monkeypatch.chdir(machine.here)
    assert machine.find(program, path) == expected


VARIABLES = {
    "LD_PRELOAD": ("{work}/x.so", None),
    "LD_LIBRARY_PATH": ("{work}/lib:/usr/lib", "/usr/lib"),
    "PYTHONPATH": ("{work}/src", None),
    "GIT_SSH_COMMAND": ("{work}/tools/ssh -o X=y", None),
    "EDITOR": ("./tools/ssh", None),
    "SHELL": ("{usr}/sh", "{usr}/sh"),
    "VISUAL": ("vim", "vim"),
    "VIRTUAL_ENV": ("{work}/.venv", "{work}/.venv"),
    "SSL_CERT_FILE": ("{work}/ca.pem", "{work}/ca.pem"),
    "ANTHROPIC_API_KEY": ("sk/not-a-path", "sk/not-a-path"),
    "XDG_CONFIG_HOME": ("{shared}/new user/config", "{shared}/new user/config"),
    "XDG_STATE_HOME": ("{shared}/new user/not-there-yet", "{shared}/new user/not-there-yet"),
    "LESSOPEN": ("{shared}/new -w", None),
}


@pytest.mark.parametrize("name", VARIABLES)
def test_variables_do_not_lead_into_the_tree(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(tmp_path)
    machine.program("home/work/tools/ssh")
    (machine.work / ".venv").mkdir()
    (machine.work / "ca.pem").write_text("a certificate")
    (machine.work / "tools" / "ssh -o").mkdir()
    (shared := tmp_path / "tmp").mkdir()
    shared.chmod(0o1777)
    (shared / "new user" / "config").mkdir(parents=True)
    monkeypatch.chdir(machine.work)
    places = {"work": str(machine.work), "usr": str(tmp_path / USR), "shared": str(shared)}
    given, kept = VARIABLES[name]
    found = cut_variables({name: given.format(**places)}, Reach([machine.work]))
    assert found.get(name) == (kept.format(**places) if kept else None)


LINKS = {
    "a file": ("home/work/plain.log", None),
    "what is not there yet": ("home/work/new/segue.log", None),
    "the agent's link": ("home/work/log", "home/work/log"),
    "the agent's folder": ("home/work/out/x", "home/work/out"),
    "the agent's link behind the user's": ("home/to/log", "home/work/log"),
    "the user's link": ("home/data/x", None),
    "the user's link into the tree": ("home/to/plain.log", None),
    "links without an end": ("home/work/round", "home/work/round"),
}


@pytest.mark.parametrize("case", LINKS)
def test_links_that_agents_can_make_are_found(case: str, tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    (machine.work / "plain.log").touch()
    for name, target in (
        *(
            ("home/work/log", "home/.bashrc"),
            ("home/work/out", "home"),
            ("home/work/round", "home/work/round"),
        ),
        *(("home/data", "state"), ("home/to", "home/work")),
    ):
        machine.link(name, target)
    path, link = LINKS[case]
    found = Reach([machine.work]).find_link(tmp_path / path)
    assert found == (None if link is None else str(tmp_path / link))


def test_another_segue_elsewhere_still_knows_what_agents_and_checks_find(tmp_path: Path) -> None:
    programs = tmp_path / "project" / "bin"
    programs.mkdir(parents=True)
    (tmp_path / "project" / ".git").mkdir()
    (programs / "tool").write_text("#!/bin/sh\n")
    (programs / "tool").chmod(0o755)
    look = "from segue.system import programs as p; p.settle(); print(p.find_inside('tool'), p.find('tool'))"
    start = (
        "import subprocess, sys; from segue.system import programs as p; p.settle();"
        f"argv = [sys.executable, '-c', sys.argv[1]]; where = {str(tmp_path)!r};"
        "subprocess.run(argv, env=p.segue_environment(), cwd=where)"
    )
    env = {"PATH": f"{programs}{os.pathsep}{os.defpath}", "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", start, look],
        cwd=tmp_path / "project",
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [str(programs / "tool"), "None"]
