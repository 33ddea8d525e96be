"""Whoever reads the output of a run may end before it does."""

from __future__ import annotations

import subprocess

from tests.cli.place import SEGUE, Place


def read_start(place: Place, lines: int, *args: str, streams: str = "") -> subprocess.CompletedProcess[bytes]:
    """Run a command whose output is read by `head`; its exit code counts."""
    script = f'set -o pipefail; "$@" {streams} | head -n {lines}'
    return subprocess.run(
        ["bash", "-c", script, "bash", *SEGUE, *args], cwd=place.repo, env=place.env, capture_output=True
    )


def test_a_run_outlives_who_reads_it(place: Place) -> None:
    lines = 1
    args = ("--json",)
    streams = ""
    ended = read_start(place, lines, "run", "plan.md", "--agent", "scripted", *args, streams=streams)
    assert ended.returncode == 0, ended.stderr
    run = place.json("status", "last")
    assert run["state"] == "done"
    assert {task["state"] for task in run["tasks"]} == {"done"}
    assert (b"nobody reads stdout" in ended.stderr) == (not streams)


def test_the_exit_code_is_still_that_of_the_run(place: Place) -> None:
    place.config('agent = "command"\n[agents.command]\nargv = ["false"]\n')
    ended = read_start(place, 1, "run", "plan.md", "--json", "--task", "1")
    assert ended.returncode == 3, ended.stderr


def test_what_only_shows_ends_with_who_reads_it(place: Place) -> None:
    place.segue("run", "plan.md", "--agent", "scripted")
    # As of other programs, a closed pipe is no error.
    for args in (["logs", "last", "--json"], ["logs", "--follow"], ["status", "last", "--json"]):
        ended = read_start(place, 1, *args)
        assert (ended.returncode, ended.stderr) == (0, b""), args
    assert place.segue("logs", "--limit", "2").stdout.splitlines()[-1].endswith("run ended: done")
    assert len(place.segue("logs", "-n", "2").stdout.splitlines()) == 2
    assert (
        "No event is of phase 'checks'. There are events of"
        in place.segue("logs", "--phase", "checks").stderr
    )
