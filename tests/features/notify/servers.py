"""Real servers on loopback that receive notifications: a web server and a mail server, each in a thread."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Hook:
    """What arrived at a webhook, and what it answers: one status per delivery, the last one for ever."""

    url: str = ""
    statuses: list[int] = field(default_factory=lambda: [200])
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    def json(self) -> list[dict[str, Any]]:
        return [json.loads(body) for body in self.bodies]


@contextmanager
def webhook() -> Iterator[Hook]:
    hook = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            hook.headers.append({name.lower(): value for name, value in self.headers.items()})
            hook.bodies.append(self.rfile.read(int(self.headers["content-length"])))
            status = hook.statuses.pop(0) if len(hook.statuses) > 1 else hook.statuses[0]
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        hook.url = f"http://127.0.0.1:{server.server_address[1]}/services/T0/secret-part"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield hook
        server.shutdown()
        thread.join()


@dataclass
class MailServer:
    """A mail server that speaks just enough SMTP."""

    port: int = 0
    silent: bool = False
    mails: list[bytes] = field(default_factory=list)
    recipients: list[str] = field(default_factory=list)

    def talk(self, connection: socket.socket) -> None:
        with connection.makefile("rwb", buffering=0) as lines:
            if self.silent:
                lines.readline()
                return
            lines.write(b"220 ready\r\n")
            while line := lines.readline():
                word = line.split()[0].upper() if line.split() else b""
                if word == b"RCPT":
                    self.recipients.append(line.decode().strip())
                elif word == b"DATA":
                    lines.write(b"354 go on\r\n")
                    data = b""
                    while (piece := lines.readline()) not in (b".\r\n", b""):
                        data += piece
                    self.mails.append(data)
                lines.write(b"250 SMTPUTF8\r\n" if word != b"QUIT" else b"221 bye\r\n")


@contextmanager
def mail_server(*, silent: bool = False) -> Iterator[MailServer]:
    server = MailServer(silent=silent)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server.port = listener.getsockname()[1]

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    connection.settimeout(120)
                    with connection, suppress(OSError, ValueError):
                        server.talk(connection)

        threading.Thread(target=serve, daemon=True).start()
        yield server
