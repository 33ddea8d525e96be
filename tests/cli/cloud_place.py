"""A place with a Spec Kit feature, a hosted repository, Cursor's cloud and a judge."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests import loopback
from tests.cli.place import Place
from tests.cli.test_spec import SPEC, TASKS
from tests.fakes.cursor_cloud import make_app
from tests.fakes.model import Model, serve_model
from tests.fakes.serving import serve

HOSTED = "https://github.com/me/app"


class Cloud:
    """A place with a feature, a hosted repository and the two services."""

    def __init__(self, place: Place, url: str, judge: Model) -> None:
        self.place = place
        self.url, self.judge = url, judge.url
        self.said = ""
        place.env |= {"CURSOR_API_KEY": "crsr_test", "OPENAI_API_KEY": "sk-test-judge"}
        place.config(
            f'agent = "cursor-cloud"\nagents.cursor-cloud.base_url = "{url}"\n'
            f'agents.cursor-cloud.repository = "{HOSTED}"\nagents.cursor-cloud.poll_interval = 0.2\n'
            f'agents.cursor-cloud.retry_pause = 0.05\njudge.base_url = "{judge.base_url}"\n'
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
        requests = loopback.get(f"{self.url}/_sim/log").json()["requests"]
        return [r for r in requests if r["method"] == "POST" and fnmatch(r["path"], path)]

    def launches(self, version: str = "v1") -> list[dict[str, Any]]:
        return self.posts(f"/{version}/agents")


@contextmanager
def open_cloud(
    place: Place, judge: Mapping[str, Any] = MappingProxyType({"default": True})
) -> Iterator[Cloud]:
    """Serve both while a test works."""
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
    with serve(make_app({}, {HOSTED: bare})) as url, serve_model({"judge": dict(judge)}) as model:
        yield Cloud(place, url, model)
