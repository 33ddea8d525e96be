"""Disks that get full and databases that are deleted: a clear word, nothing lost, and `resume` works."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.place import SEGUE, Place

AGENT = """
import os, pathlib, sys, time
prompt = sys.stdin.read()
number = next(word for word in ("one", "two", "three") if f"Write {word}" in prompt)
pathlib.Path(f"{number}.txt").write_text(number * 100)
root, what = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
once = root / "once"
with (root / "launches").open("a") as launches:
    launches.write(f"{number}\\n")
if number == "two" and not once.exists():
    once.touch()
    if what.suffix == ".db":
        for path in what.parent.glob("segue.db*"):
            path.unlink()
    else:
        with open(what, "wb", buffering=0) as file:
            for size in (4096, 1):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError:
                    pass
for _ in range(10 if "slowly" in sys.argv else 1):
    print("I have done it. " * 500, flush=True)
    time.sleep(0.2 if "slowly" in sys.argv else 0)
"""
"""Writes a file for each task; in the second it fills a disk, or deletes a database, once."""

DRIVE = """
import pathlib, subprocess, sys
small, filler, repo, *segue = sys.argv[1:]
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", small], check=True)
subprocess.run(["cp", "-a", f"{small}.before/.", small], check=True)
first = subprocess.run([*segue, "run", "plan.md"], cwd=repo).returncode
full = subprocess.run([*segue, "resume"], cwd=repo).returncode
launches = pathlib.Path(f"{repo}/../launches").read_text().split()
pathlib.Path(filler).unlink()
again = subprocess.run([*segue, "resume"], cwd=repo).returncode
log = subprocess.run(["git", "log", "--format=%s"], cwd=repo, capture_output=True, text=True).stdout
status = subprocess.run(["git", "status", "--short"], cwd=repo, capture_output=True, text=True).stdout
print("\\nRESULT", first, full, again, log.count("Task "), repr(status), *launches)
"""
"""Mounts a small disk in a namespace of its own, so that nobody else sees it."""


def use_agent(place: Place, what: Path, how: str = "") -> None:
    (place.root / "agent.py").write_text(AGENT)
    argv = f'["{sys.executable}", "{place.root}/agent.py", "{place.root}", "{what}", "{how}"]'
    place.config(f'agent = "command"\n[agents.command]\nargv = {argv}\n')


def may_mount() -> bool:
    unshare = shutil.which("unshare")
    probe = ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return bool(unshare) and os.geteuid() == 0 and subprocess.run(probe, capture_output=True).returncode == 0


@pytest.mark.parametrize(
    ("name", "code", "how"),
    [("state", 1, "slowly"), ("journal", 1, "slowly"), ("repo", 3, "")],
    ids=["state-at-work", "journal-at-work", "repo-3"],
)
def test_a_disk_that_gets_full_costs_nothing_but_time(place: Place, name: str, code: int, how: str) -> None:
    if not may_mount():
        pytest.skip("no small disk can be mounted here")
    small = place.root / name
    filler = small / (".git/filler" if name == "repo" else "filler")
    use_agent(place, filler, how)
    if name == "journal":
        place.more_config(f'database_url = "{small / "segue.db"}"\n')
    small.mkdir(exist_ok=True)
    shutil.copytree(small, f"{small}.before", symlinks=True)
    command = [
        "unshare",
        "--mount",
        sys.executable,
        "-c",
        DRIVE,
        str(small),
        str(filler),
        str(place.repo),
        *SEGUE,
    ]
    done = subprocess.run(command, env=place.env, capture_output=True, text=True, timeout=120)
    assert f"RESULT {code} {code} 0 3 '' one two\n" in done.stdout, done.stdout + done.stderr
    assert "No space left on device" in done.stderr or "disk is full" in done.stderr
    assert "unexpected" not in done.stderr
    assert (place.root / "launches").read_text().split() == ["one", "two", "three"], "nobody is paid twice"


def test_a_database_that_is_deleted_in_mid_run_is_said_and_the_work_named(place: Place) -> None:
    use_agent(place, place.database)
    done = place.segue("run", "plan.md", code=1)
    head = place.git("rev-parse", "--short=10", "HEAD").strip()
    assert f"The database {place.database} was deleted" in done.stderr
    assert f"The work is in {place.repo} as {head}" in done.stderr
    assert "unexpected" not in done.stderr
    assert place.git("status", "--short") == "?? two.txt\n"
    place.git("add", "--all")
    place.git("commit", "--quiet", "-m", "Two, by hand")
    place.segue("run", "plan.md", "--from", "3")
    assert place.git("log", "--format=%s").splitlines()[:3] == [
        "Task 3: Write three.",
        "Two, by hand",
        "Task 1: Write one.",
    ]
