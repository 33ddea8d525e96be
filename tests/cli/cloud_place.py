"""A place with a Spec Kit feature, a hosted repository, and simulators of Cursor's cloud and of a judge."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from types import MappingProxyType
from typing import Any

from segue.parts.sim.cloud.app import cloud_app
from segue.parts.sim.cloud.script import CloudScript
from segue.sim.llm.app import llm_app
from segue.sim.llm.script import LlmScript
from segue.sim.script import check_script
from segue.system.http.server import start_server
from tests import loopback
from tests.cli.place import Place
from tests.cli.test_spec import SPEC, TASKS

HOSTED = "https://github.com/me/app"


class Cloud:
    """A place with a feature, a hosted repository and the two simulated services."""

    def __init__(self, place: Place, url: str, judge: str) -> None:
        self.place = place
        self.url, self.judge = url, judge
        self.said = ""
        place.env |= {"CURSOR_API_KEY": "crsr_test", "OPENAI_API_KEY": "sk-test-judge"}
        place.config(
            f'agent = "cursor-cloud"\nagents.cursor-cloud.base_url = "{url}"\n'
            f'agents.cursor-cloud.repository = "{HOSTED}"\nagents.cursor-cloud.poll_interval = 0.2\n'
            f'agents.cursor-cloud.retry_pause = 0.05\njudge.base_url = "{judge}/v1"\n'
        )

    @property
    def folder(self) -> Path:
        return self.place.repo / "specs" / "001-greeting"

    @property
    def state(self) -> Any:
        return json.loads((self.folder / "state.json").read_text())

    def script(self, *entries: dict[str, Any]) -> None:
        """What the agents do from now on."""
        loopback.post(f"{self.url}/_sim/script", json={"on": list(entries)}).raise_for_status()

    def posts(self, path: str) -> list[dict[str, Any]]:
        """Return what was posted to a path; `*` in it stands for anything."""
        log = loopback.get(f"{self.url}/_sim/log").json()
        requests = log["requests"] if isinstance(log, dict) else log
        return [r for r in requests if r["method"] == "POST" and fnmatch(r["path"], path)]

    def launches(self, version: str = "v1") -> list[dict[str, Any]]:
        return self.posts(f"/{version}/agents")


@contextmanager
def open_cloud(
    place: Place, judge: Mapping[str, Any] = MappingProxyType({"default": True})
) -> Iterator[Cloud]:
    """Serve both simulators while a test works."""
    folder = place.repo / "specs" / "001-greeting"
    folder.mkdir(parents=True)
    (folder / "tasks.md").write_text(TASKS)
    (folder / "spec.md").write_text(SPEC)
    (folder / "plan.md").write_text("# Plan\n")
    place.git("add", "--all")
    place.git("commit", "--quiet", "-m", "feature")
    place.git("branch", "--move", "main", "trunk")
    bare = place.root / "hosted.git"
    subprocess.run(["git", "clone", "-q", "--bare", str(place.repo), str(bare)], check=True, env=place.env)
    place.git("remote", "add", "origin", str(bare))
    url, stop = start_server(cloud_app(CloudScript(), {HOSTED: bare}))
    model, stop_judge = start_server(llm_app(check_script([{"judge": dict(judge)}], LlmScript)))
    yield Cloud(place, url, model)
    stop()
    stop_judge()
