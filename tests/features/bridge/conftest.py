"""A setting for conversations: two hosted repositories on the simulated cloud, programs as local agents."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import loopback
from tests.cli.place import Place
from tests.fakes.cursor_cloud import make_app
from tests.fakes.serving import serve

HOME = "https://github.com/me/agent-env"
APP = "https://github.com/me/app"
WORKS = {"prompt": "Complete the task between", "say": "I did it.", "write": {"health.txt": "ok"}}
"""The script of subagents."""


class Bridge:
    """The place, the simulated cloud, and the requests it received."""

    def __init__(self, place: Place, url: str) -> None:
        self.place = place
        self.url = url
        place.env |= {"CURSOR_API_KEY": "crsr_test_key_1234"}
        self.configure()

    def configure(self, **settings: Any) -> None:
        """Write the settings; values of `[bridge]` by name."""
        given: dict[str, Any] = {"allow_repos": ["github.com/me/app"], **settings}
        lines = [f"{name} = {_toml(value)}" for name, value in given.items()]
        self.place.config(
            f'agent = "cursor-cloud"\n[agents.cursor-cloud]\nbase_url = "{self.url}"\npoll_interval = 0.2\n'
            "retry_pause = 0.05\n[bridge]\n" + "\n".join(lines) + "\n"
        )

    def script(self, *entries: dict[str, Any]) -> None:
        """Set the script of the agents."""
        loopback.post(f"{self.url}/_sim/script", json={"on": list(entries)}).raise_for_status()

    def replies(self, *says: str, works: dict[str, Any] = WORKS) -> None:
        """Set the replies of the conversation's agent, turn by turn; the last one repeats."""
        turns = [{"prompt": "bridge", "turn": n, "say": say} for n, say in enumerate(says, 1)]
        self.script(works, *turns, {"prompt": "bridge", "say": says[-1]})

    def requests(self, path: str = "") -> list[dict[str, Any]]:
        found = loopback.get(f"{self.url}/_sim/log").json()["requests"]
        return [r for r in found if r["method"] == "POST" and r["path"].startswith(path)]

    def launches(self) -> list[dict[str, Any]]:
        return [r["body"] for r in self.requests("/v1/agents") if r["path"] == "/v1/agents"]

    def repos(self) -> list[str]:
        """Return the repositories on which agents were launched."""
        return sorted({body["agentId"]: body["repos"][0]["url"] for body in self.launches()}.values())

    def follow_ups(self) -> list[str]:
        return [
            r["body"]["prompt"]["text"] for r in self.requests("/v1/agents/") if r["path"].endswith("/runs")
        ]

    def run(self, *args: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        return self.place.segue("bridge", "run", "--repo", HOME, *args, code=code)

    def last(self) -> Any:
        return self.place.json("bridge", "show", "last")


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {_toml(inner)}" for name, inner in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A repository, a home and a configuration."""
    return Place.make(tmp_path)


@contextmanager
def open_bridge(place: Place) -> Iterator[Bridge]:
    """Serve the simulated cloud with two hosted repositories while a test works."""
    table = {}
    for url in (HOME, APP):
        bare = place.root / f"{url.rpartition('/')[2]}.git"
        subprocess.run(
            ["git", "clone", "-q", "--bare", str(place.repo), str(bare)], check=True, env=place.env
        )
        table[url] = bare
    with serve(make_app({}, table)) as url:
        yield Bridge(place, url)


@pytest.fixture
def bridge(place: Place) -> Iterator[Bridge]:
    """The simulated cloud with two hosted repositories."""
    with open_bridge(place) as opened:
        yield opened
