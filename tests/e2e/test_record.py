"""What the real command lines and their model say is recorded, and replayed without a vendor."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from segue.agents.local.recording import read_recording, write_recording
from segue.domain.recording import RecordedLaunch, Recording
from segue.system.redact import Redactor
from tests.e2e.conftest import KEY, Real

both = pytest.mark.parametrize("real", ["claude", "codex"], indirect=True)


@pytest.fixture
def recorded(real: Real) -> Real:
    """A run whose agent writes a file and reads one, is sent back by a check, and continues."""
    (real.place.repo / "notes.txt").write_text("first note\n")
    real.place.git("add", ".")
    real.place.git("commit", "-qm", "notes")
    config = (real.place.root / "segue.toml").read_text()
    real.place.config(f'checks = ["test -e two.txt"]\n{config}record = true\n')
    real.model.plays(
        real.write("Write one", "one.txt", "one"),
        {"times": 1, "tool_calls": [real.shell("cat notes.txt; date; ls -l --full-time")]},
        {"times": 1, "reply": "It is done."},
        real.write("", "two.txt", "two"),
        {"reply": "Now it is."},
    )
    real.place.segue("run", "plan.md", "--task", "1")
    return real


def recordings(real: Real) -> list[Path]:
    files = [event["file"] for event in real.events("agent.recorded")]
    return [next(real.place.root.rglob(file)) for file in files]


def alter(path: Path, change: Callable[[RecordedLaunch], RecordedLaunch]) -> None:
    known = read_recording(path)
    write_recording(path, Recording(change(known.launch), known.exchanges), Redactor())


def without_vendor(real: Real) -> dict[str, str]:
    return {"ANTHROPIC_API_KEY": "", "SIM_KEY": "", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}


@both
def test_a_recorded_run_is_replayed_without_its_vendor(recorded: Real) -> None:
    asked = len(recorded.model.asked())
    first, second = map(read_recording, recordings(recorded))
    assert len(first.exchanges) + len(second.exchanges) == asked == 5
    assert second.launch.session == first.launch.ended
    assert KEY not in repr(first), "no key is stored"
    done = recorded.place.segue("replay", "--agent", **without_vendor(recorded))
    assert "all 3 requests and the work are as recorded" in done.stdout
    assert "all 2 requests and the work are as recorded" in done.stdout
    assert len(recorded.model.asked()) == asked, "nobody was asked"
    assert recorded.place.git("status", "--porcelain") == ""


@both
def test_the_first_difference_is_shown(recorded: Real) -> None:
    place, (path, _) = recorded.place, recordings(recorded)
    (place.repo / "notes.txt").write_text("another note\n")
    place.git("checkout", "-q", "-b", "other", read_recording(path).launch.head)
    (place.repo / "notes.txt").write_text("another note\n")
    place.git("commit", "-qam", "another")
    tree = place.git("rev-parse", "HEAD^{tree}").strip()
    place.git("checkout", "-q", "main")
    alter(path, lambda launch: replace(launch, before=tree))
    done = place.segue("replay", "--agent", code=3, **without_vendor(recorded))
    assert "request 3 of 3 differs" in done.stdout or "request 1 of 3 differs" in done.stdout
    print(done.stdout)
    print(place.segue("replay", "--agent", "--json", code=3).stdout)
    assert 0
