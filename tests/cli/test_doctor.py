"""`segue doctor`: whether a run could start here, and the one command to type next, which then works."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from tests.cli.place import Place
from tests.cli.test_first_run import install


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A repository with a plan, no settings, and no agent on the PATH."""
    place = Place.make(tmp_path)
    install(place)
    return place


def examine(place: Place, code: int) -> dict[str, Any]:
    """The answer of the doctor, which must be the same in JSON and on the terminal."""
    found: dict[str, Any] = place.json("doctor", code=code)
    assert found["exit_code"] == code
    assert found["ready"] is (code == 0)
    last = place.segue("doctor", code=code).stdout.splitlines()[-1]
    assert last == found["verdict"].replace(f"{place.env['HOME']}/", "~/")
    return found


def _closed_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port


def type_segue(place: Place, command: str, code: int = 0) -> str:
    words = command.split()
    assert words[0] == "segue"
    return place.segue(*words[1:], code=code).stdout


def test_an_agent_and_a_plan_are_ready(place: Place) -> None:
    install(place, "claude")
    found = examine(place, 0)
    assert found["verdict"] == "Ready: segue run plan.md --yes"
    type_segue(place, found["next"])
    assert len(place.subjects()) == 3
    done = examine(place, 0)
    assert done["verdict"] == "Ready: every task of plan.md is done. Next: segue status"
    assert "plan.md" in type_segue(place, done["next"])
    (place.root / "bin" / "claude").unlink()
    assert "no agent is installed" in examine(place, 5)["verdict"], "another run could not start"


def test_an_agent_that_is_not_logged_in_says_how(place: Place) -> None:
    install(place, "claude", logged_in=False)
    found = examine(place, 4)
    assert found["verdict"].startswith("Not ready: no agent is logged in. Next: claude ")
    assert "`" not in found["next"]
    [agent] = [one for one in found["checks"] if one["what"] == "agent claude"]
    assert agent["detail"].startswith("Claude Code is not logged in.")
    place.segue("run", "--yes", code=4)


def test_a_database_that_does_not_answer_is_named(place: Place) -> None:
    install(place, "claude")
    place.env["SEGUE_DATABASE_URL"] = f"postgresql://u:secret-word@127.0.0.1:{_closed_port()}/x"
    found = place.json("doctor", code=1)
    assert found["verdict"].startswith("Not ready: ")
    assert "127.0.0.1" in found["verdict"]
    assert "secret-word" not in str(found)


def test_looking_leaves_nothing_behind(place: Place) -> None:
    install(place)
    examine(place, 5)
    assert not place.database.exists()
    assert place.git("status", "--porcelain") == ""
