"""What the real command lines and their model say is recorded, and replayed without a vendor."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from segue.agents.local.recording import read_recording, write_recording
from segue.system.recording.exchanges import RecordedLaunch, Recording
from segue.system.redact import Redactor
from tests.cli.place import DEADLINE, until
from tests.e2e.conftest import KEY, Real

NO_VENDOR = {"ANTHROPIC_API_KEY": "", "SIM_KEY": "", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}


def record(real: Real, more: str = "") -> None:
    config = (real.place.root / "segue.toml").read_text()
    real.place.config(f"{more}{config}record = true\n")


def recordings(real: Real) -> list[Path]:
    files = [event["file"] for event in real.events("agent.recorded")]
    return [next(real.place.root.rglob(file)) for file in files]


def alter(path: Path, change: Callable[[RecordedLaunch], RecordedLaunch]) -> None:
    known = read_recording(path)
    write_recording(path, Recording(change(known.launch), known.exchanges), Redactor())


def other_tree(real: Real, start: str) -> str:
    """Another state of the base: one file of it says something else."""
    place = real.place
    place.git("checkout", "-q", "-b", "other", start)
    (place.repo / "notes.txt").write_text("another note\n")
    place.git("commit", "-qam", "another")
    place.git("checkout", "-q", "main")
    return place.git("rev-parse", "other^{tree}").strip()


@pytest.mark.parametrize("real", ["claude", "codex"], indirect=True)
def test_a_recorded_run_is_replayed_without_its_vendor(real: Real) -> None:
    """An agent writes a file and reads one, is sent back by a check, and continues its conversation."""
    place = real.place
    (place.repo / "notes.txt").write_text("first note\n")
    place.git("add", ".")
    place.git("commit", "-qm", "notes")
    record(real, 'checks = [["sh", "-c", "! ls | grep -q ^one || ls | grep -q ^two"]]\n')
    real.model.plays(
        real.write("Write one", "one.txt", "one"),
        {"times": 1, "tool_calls": [real.shell("cat notes.txt; date; ls -l --full-time")]},
        {"times": 1, "reply": "It is done."},
        real.write("", "two.txt", "two"),
        {"reply": "Now it is."},
    )
    place.segue("run", "plan.md", "--task", "1")
    asked = len(real.model.asked())
    paths = recordings(real)
    first, second = map(read_recording, paths)
    sent = [one for one in (*first.exchanges, *second.exchanges) if one.method == "POST"]
    assert len(sent) == asked == 5
    assert second.launch.session == first.launch.ended
    assert KEY not in repr((first, second)), "no key is stored"

    done = place.segue("replay", "--agent", code=0, **NO_VENDOR)
    assert "all 3 requests and the work are as recorded" in done.stdout
    assert "all 2 requests and the work are as recorded" in done.stdout
    assert place.git("status", "--porcelain") == ""

    alter(paths[0], lambda launch: replace(launch, before=other_tree(real, launch.head)))
    done = place.segue("replay", "--agent", code=3, **NO_VENDOR)
    # Claude looks at the state of the repository before it asks anything.
    if real.name == "claude":
        assert "request 1 of 3 differs, first in " in done.stdout
        assert "M notes.txt" in done.stdout
    else:
        assert "request 3 of 3 differs, first in input[" in done.stdout
        assert "-  first note" in done.stdout
        assert "+  another note" in done.stdout

    text = first.launch.prompt.replace("Write one.", "Write a poem.")
    alter(paths[0], lambda launch: replace(launch, before=first.launch.before, prompt=text))
    [said] = place.json("replay", "--agent", code=3)["launches"]
    assert (said["same"], said["request"]) == (False, 1)
    assert any(line.startswith("-") and "Write one." in line for line in said["diff"])
    assert any(line.startswith("+") and "Write a poem." in line for line in said["diff"])

    alter(paths[0], lambda launch: replace(launch, version="0.0.1"))
    assert f"recorded with {real.name} 0.0.1; here is" in place.segue("replay", "--agent", code=5).stderr
    paths[0].unlink()
    assert "is not here" in place.segue("replay", "--agent", code=2).stderr
    assert len(real.model.asked()) == asked, "nobody was asked again"


@pytest.mark.thorough
@pytest.mark.parametrize("real", ["claude"], indirect=True)
def test_a_recording_survives_a_kill(real: Real) -> None:
    record(real)
    real.model.plays(
        real.write("", "one.txt", "one"), {"reply": "Did one.", "delay": 2, "times": 1}, {"reply": "Done."}
    )
    process = real.place.start("run", "plan.md", "--task", "1")
    until((real.place.repo / "one.txt").exists, "the agent works")
    process.kill()
    process.wait(DEADLINE)
    real.place.segue("resume")
    assert [event["facts"]["adopted"] for event in real.events("agent.ended")] == [True]
    (event,), (path,) = real.events("agent.recorded"), recordings(real)
    assert event["requests"] in (2, 3), "some versions look whether the service is there"
    assert "Did one." in read_recording(path).exchanges[-1].body
    real.place.segue("replay", "--agent", code=0, **NO_VENDOR)
