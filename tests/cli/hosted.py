"""A repository whose origin is a bare one that a stand-in for GitHub knows."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests import loopback
from tests.cli.place import Place
from tests.fakes.github import Github
from tests.fakes.serving import serve

PROJECT = "me/app"
TOKEN = "token-of-a-test-0123456789"
WORK = '[[on]]\nwrite = { "f{task}" = "x" }\n'


class Hosted:
    """A place with an origin on GitHub."""

    def __init__(self, place: Place, origin: Path, hub: Github, url: str) -> None:
        self.place, self.origin, self.hub, self.url = place, origin, hub, url
        place.env["GITHUB_TOKEN"] = TOKEN
        self.settings("")

    def settings(self, more: str, head: str = "", script: str = WORK) -> None:
        """Write the settings: `head` before the tables, `more` into the one of the delivery."""
        self.place.script(script)
        self.place.more_config(head)
        old = (self.place.root / "segue.toml").read_text()
        named = f'api = "{self.url}"\nproject = "{PROJECT}"'
        self.place.config(f"{old}\n[deliveries.pr]\n{named}\n{more}\n")

    def ask(self, method: str, path: str, body: Any = None, token: str = TOKEN, **query: str) -> Any:
        """Ask the API about the repository as the person whose token it is."""
        headers = {"authorization": f"Bearer {token}"}
        address = f"{self.url}/repos/{PROJECT}{path}"
        answer = loopback.request(method, address, json=body, headers=headers, params=query)
        assert answer.is_success, answer.text
        return answer.json()

    def pulls(self) -> list[dict[str, Any]]:
        """Return the pull requests, newest first."""
        found: list[dict[str, Any]] = self.ask("GET", "/pulls", state="all")
        return found

    def fail(self, *faults: Mapping[str, Any]) -> None:
        """Let requests fail from now on."""
        self.hub.app.faults.add(*faults)

    def git(self, *args: str) -> str:
        """Ask the bare repository."""
        command = ["git", "--git-dir", str(self.origin), *args]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@contextmanager
def host(place: Place, **script: Any) -> Iterator[Hosted]:
    """Give the place an origin that has its main branch, and serve GitHub's API."""
    origin = make_origin(place)
    hub = Github({"repos": {PROJECT: {"bare": str(origin)}}, **script})
    with serve(hub.app) as url:
        yield Hosted(place, origin, hub, url)


def make_origin(place: Place) -> Path:
    """Give the place an origin that has its main branch."""
    origin = place.root / "origin.git"
    subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=main", str(origin)], check=True)
    place.git("remote", "add", "origin", str(origin))
    place.git("push", "--quiet", "--set-upstream", "origin", "main")
    return origin
