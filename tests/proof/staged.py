"""One run of a runner on a small tree, without a sandbox."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from segue.proof.report import Report
from segue.proof.runners import LAST, RUNNERS, Ended, Project, Purpose, Runner, Stage, read_report


def write(tree: Path, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text)


def run(
    folder: Path,
    argv: Sequence[str],
    files: Mapping[str, str],
    wanted: Sequence[str] = (),
    runners: Sequence[Runner] = (*RUNNERS, *LAST),
) -> tuple[Report | None, Ended]:
    """Return what the runners report of a command on these files, and how it ended."""
    work = folder / secrets.token_hex(4)
    tree, hooks, reports = (work / name for name in ("tree", "hooks", "reports"))
    for place in (tree, hooks, reports):
        place.mkdir(parents=True)
    write(tree, files)
    tests = tuple(path for path in files if "test" in path)
    token = f"s{secrets.token_hex(6)}"
    stage = Stage(tuple(argv), tree, tree, hooks, reports, token, tests, Purpose(tuple(wanted)))
    armed = [runner for runner in runners if runner.applies(Project(stage.argv, files.keys()))]
    env: dict[str, str] = dict(os.environ)
    for variables in (runner.arm(stage) for runner in armed):
        env |= {
            name: f"{env[name]}{os.pathsep}{value}"
            if name == "PYTHONPATH" and name in env and value not in env[name]
            else value
            for name, value in variables.items()
        }
    done = subprocess.run(argv, cwd=tree, env=env, capture_output=True, text=True, timeout=120, check=False)
    ended = Ended(done.returncode, done.stdout, done.stderr)
    return read_report(armed, stage, ended), ended
