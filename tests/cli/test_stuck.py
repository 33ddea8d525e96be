"""An agent that turns in circles, as its user sees it: noticed, notified, ended, and told the next time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.place import Place
from tests.features.notify.servers import webhook
from tests.shebang import shebang

PLAN = "# Plan\n\n## Task 1\nWrite one.\n"

_CLAUDE = """{shebang}
import itertools, json, sys, time
from pathlib import Path

def line(**more):
    print(json.dumps(more), flush=True)

def message(role, *blocks):
    line(type=role, message={{"role": role, "content": list(blocks)}}, session_id="s")

if sys.argv[1:] == ["--version"]:
    print("2.1.325 (Claude Code)")
    sys.exit()
if "status" in sys.argv:
    print('{{"loggedIn": true}}')
    sys.exit()
prompt = json.loads(sys.stdin.readline())["message"]["content"]
launches = Path({folder!r}) / "launches"
with launches.open("a") as log:
    log.write(json.dumps(prompt) + "\\n")
line(type="system", subtype="init", session_id="s", model="sim", cwd=".", tools=[])
Path("half.txt").write_text("half of it")
if len(launches.read_text().splitlines()) <= {stuck}:
    for number in itertools.count():
        if number == 6:  # by then it is noticed
            line(**json.loads(sys.stdin.readline()), isReplay=True)
        key = f"call {{number}}"
        call = {{"name": "Bash", "input": {{"command": "make it"}}}}
        message("assistant", {{"type": "tool_use", "id": key, **call}})
        result = {{"content": "No rule to make it", "is_error": True}}
        message("user", {{"type": "tool_result", "tool_use_id": key, **result}})
        time.sleep(0.02)
Path("one.txt").write_text("one")
line(type="result", subtype="success", is_error=False, result="Done.", session_id="s", usage={{}})
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place.make(tmp_path, PLAN)


def stick(place: Place, launches: int) -> None:
    """Put a Claude on the PATH that turns in circles in its first launches."""
    (place.root / "bin").mkdir()
    program = place.root / "bin" / "claude"
    program.write_text(_CLAUDE.format(shebang=shebang(), folder=str(place.root), stuck=launches))
    program.chmod(0o755)
    place.env["PATH"] = f"{place.root / 'bin'}:{place.env['PATH']}"


def _prompts(place: Place) -> list[str]:
    return (place.root / "launches").read_text().splitlines()


def test_it_is_noticed_told_to_people_ended_and_tried_again_with_the_reason(place: Place) -> None:
    stick(place, 1)
    with webhook() as hook:
        place.config(f'[notify.webhook]\nurl = "{hook.url}"\n')
        done = place.segue("run", "plan.md", "--agent", "claude", SEGUE_LIMITS__STUCK="0.3")
        assert ("stuck", "Task 1 (Write one.) seems stuck") in [
            (one["kind"], one["title"]) for one in hook.json()
        ]
    assert "seems stuck: it repeats Bash make it" in done.stdout + done.stderr
    (event,) = place.events("agent.stuck")
    assert (event["task"], event["told"]) == ("1", True)
    (said,) = place.events("task.commented")
    assert said["by"] == "Segue"
    assert "you turn in circles: it repeats Bash make it" in said["text"]
    assert [told["how"] for told in place.events("words.delivered")] == ["session"]
    kinds = "SELECT data->'failure'->>'kind' FROM orchestrator_events WHERE type = 'agent.ended' ORDER BY seq"
    assert place.rows(kinds) == [("stuck",), (None,)]
    first, second = _prompts(place)
    assert "It was ended because" not in first
    assert "It was ended because it repeats Bash make it" in second
    assert place.git("show", "HEAD:half.txt") == "half of it"
