"""A repository whose origin is a bare one, and a simulated service that knows it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from tests import loopback
from tests.cli.place import Place

PROJECT = "me/app"
TOKEN = "token-of-a-test-0123456789"
WORK = '[[on]]\nwrite = { "f{task}" = "x" }\n'


class Hosted:
    """A place with an origin on a simulated service."""

    def __init__(self, place: Place, origin: Path, service: str, url: str) -> None:
        self.place, self.origin, self.service, self.url = place, origin, service, url
        name = "GITHUB_TOKEN" if service == "github" else "GITLAB_TOKEN"
        place.env[name] = TOKEN
        self.http = loopback.client(base_url=url, timeout=300)
        place.script(WORK)
        self.settings("")

    @property
    def api(self) -> str:
        return self.url if self.service == "github" else f"{self.url}/api/v4"

    def settings(self, more: str, head: str = "", script: str = WORK) -> None:
        """Write the settings: `head` before the tables, `more` into the one of the delivery."""
        self.place.script(script)
        named = f'service = "{self.service}"\napi = "{self.api}"\nproject = "{PROJECT}"'
        table = f"[deliveries.pr]\n{named}\n{more}\n"
        self.place.more_config(head)
        old = (self.place.root / "segue.toml").read_text()
        self.place.config(f"{old}\n{table}")

    def pulls(self) -> list[dict[str, Any]]:
        """Return the pull requests that the service has, oldest first."""
        if self.service == "github":
            path, query = f"/repos/{PROJECT}/pulls", {"state": "all", "direction": "asc"}
        else:
            path, query = "/api/v4/projects/me%2Fapp/merge_requests", {"state": "all"}
        found = self.http.get(path, params=query, headers=self.headers()).json()
        return sorted(found, key=lambda one: one["number" if self.service == "github" else "iid"])

    def headers(self, token: str = TOKEN) -> dict[str, str]:
        return {"authorization": f"Bearer {token}"} if self.service == "github" else {"private-token": token}

    def edit(self, pull: dict[str, Any], body: str) -> None:
        """Let a person rewrite the text of a pull request."""
        if self.service == "github":
            path = f"/repos/{PROJECT}/pulls/{pull['number']}"
            self.http.patch(path, json={"body": body}, headers=self.headers()).raise_for_status()
        else:
            path = f"/api/v4/projects/me%2Fapp/merge_requests/{pull['iid']}"
            self.http.put(path, json={"description": body}, headers=self.headers()).raise_for_status()

    def fail(self, *faults: dict[str, Any]) -> None:
        """Let requests fail from now on."""
        if self.service == "github":
            assert self.http.post("/_sim/faults", json=list(faults)).status_code == 200
        else:
            assert self.http.post("/_sim/script", json={"faults": list(faults)}).status_code == 200

    def git(self, *args: str) -> str:
        """Ask the bare repository."""
        command = ["git", "--git-dir", str(self.origin), *args]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def requests(self, method: str) -> list[str]:
        found = self.http.get("/_sim/log", params={"method": method}).json()["requests"]
        return [one["path"] for one in found]


def make_origin(place: Place) -> Path:
    """Give the place an origin that has its main branch."""
    origin = place.root / "origin.git"
    subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=main", str(origin)], check=True)
    place.git("remote", "add", "origin", str(origin))
    place.git("push", "--quiet", "--set-upstream", "origin", "main")
    return origin
