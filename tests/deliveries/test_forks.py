"""A stranger's pull request from a fork with a branch of the same name is not that of a run."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from segue.deliveries.github import GitHub
from segue.deliveries.hosting import HostedPlace
from segue.parts.trackers.gitlab import GitLab

BRANCH = "segue/20260101-000000-abcdef"


@contextmanager
def answering(body: list[dict[str, Any]]) -> Iterator[str]:
    """Serve one answer to everything, as a service that ignores filters would."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            data = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def pull(number: int, home: str | None) -> dict[str, Any]:
    head = {"ref": BRANCH, "sha": f"{number}" * 40, "repo": {"full_name": home} if home else None}
    base = {"ref": "main", "sha": "0" * 40, "repo": {"full_name": "acme/shop"}}
    url = f"https://example.org/{number}"
    return {"number": number, "html_url": url, "state": "open", "title": "x", "head": head, "base": base}


def request(number: int, home: int) -> dict[str, Any]:
    branches = {"source_branch": BRANCH, "target_branch": "main"}
    projects = {"source_project_id": home, "target_project_id": 7}
    return (
        {"iid": number, "web_url": f"https://example.org/{number}", "state": "opened", "title": "x"}
        | branches
        | projects
    )


def test_github() -> None:
    with answering([pull(1, "stranger/shop"), pull(2, None), pull(3, "acme/shop")]) as api:
        # The repository was renamed: its remote still has the old name.
        hub = GitHub(HostedPlace("github", "example.org", api, "acme/old-shop"), "key", str)
        assert [one.number for one in asyncio.run(hub.find(BRANCH))] == [3]


def test_gitlab() -> None:
    with answering([request(1, 8), request(3, 7)]) as api:
        lab = GitLab(HostedPlace("gitlab", "example.org", api, "acme/shop"), "key", str)
        assert [one.number for one in asyncio.run(lab.find(BRANCH))] == [3]
