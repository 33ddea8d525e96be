"""A web server on loopback that receives notifications, in a thread."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Hook:
    """What arrived at a webhook, and what it answers: one status per delivery, the last one for ever."""

    url: str = ""
    """In Apprise's form: it posts JSON there."""
    statuses: list[int] = field(default_factory=lambda: [200])
    bodies: list[bytes] = field(default_factory=list)

    def json(self) -> list[dict[str, Any]]:
        return [json.loads(body) for body in self.bodies]

    def titles(self) -> list[str]:
        return [body["title"] for body in self.json()]


@contextmanager
def webhook() -> Iterator[Hook]:
    hook = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            hook.bodies.append(self.rfile.read(int(self.headers["content-length"])))
            status = hook.statuses.pop(0) if len(hook.statuses) > 1 else hook.statuses[0]
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        hook.url = f"json://127.0.0.1:{server.server_address[1]}/services/T0/secret-part"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield hook
        server.shutdown()
        thread.join()
