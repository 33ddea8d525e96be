"""Real servers on loopback that receive notifications: a web server and a mail server, each in a thread."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest


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
    tls: ssl.SSLContext | None = None
    implicit: bool = False
    password: str = ""
    silent: bool = False
    mails: list[bytes] = field(default_factory=list)
    senders: list[str] = field(default_factory=list)
    recipients: list[str] = field(default_factory=list)
    encrypted: list[bool] = field(default_factory=list)

    def talk(self, connection: socket.socket) -> None:
        if self.implicit and self.tls:
            connection = self.tls.wrap_socket(connection, server_side=True)
        held = Conversation(self, connection)
        try:
            held.hold()
        finally:
            held.lines.close()
            held.connection.close()


class Conversation:
    """One connection."""

    def __init__(self, server: MailServer, connection: socket.socket) -> None:
        self.server = server
        self.connection = connection
        self.lines = connection.makefile("rb")
        self.logged_in = not server.password

    def hold(self) -> None:
        if self.server.silent:
            self.lines.readline()
            return
        self.say("220 ready")
        while line := self.lines.readline():
            word = line.split()[0].upper() if line.split() else b""
            if word == b"QUIT":
                self.say("221 bye")
                return
            self.answer(word, line.decode().strip())

    def answer(self, word: bytes, line: str) -> None:
        secure = isinstance(self.connection, ssl.SSLSocket)
        if word == b"EHLO":
            offers = [
                "here",
                "AUTH PLAIN",
                *(["STARTTLS"] if self.server.tls and not secure else []),
                "SMTPUTF8",
            ]
            for offer in offers[:-1]:
                self.say(f"250-{offer}")
            self.say(f"250 {offers[-1]}")
        elif word == b"STARTTLS" and self.server.tls:
            self.say("220 go ahead")
            self.lines.close()
            self.connection = self.server.tls.wrap_socket(self.connection, server_side=True)
            self.lines = self.connection.makefile("rb")
        elif word == b"AUTH":
            given = base64.b64decode(line.split()[2]).split(b"\0")[2].decode()
            self.logged_in = given == self.server.password
            self.say("235 welcome" if self.logged_in else "535 no")
        elif not self.logged_in:
            self.say("530 log in first")
        else:
            self.take(word, line)

    def take(self, word: bytes, line: str) -> None:
        if word == b"MAIL":
            self.server.senders.append(line)
        elif word == b"RCPT":
            self.server.recipients.append(line)
        elif word == b"DATA":
            self.say("354 go on")
            data = b""
            while (piece := self.lines.readline()) not in (b".\r\n", b""):
                data += piece
            self.server.mails.append(data)
            self.server.encrypted.append(isinstance(self.connection, ssl.SSLSocket))
        self.say("250 ok")

    def say(self, text: str) -> None:
        self.connection.sendall(f"{text}\r\n".encode())


@contextmanager
def mail_server(**options: Any) -> Iterator[MailServer]:
    server = MailServer(**options)
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


def certificate(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """A certificate of our own for localhost, and a server's half of it."""
    if shutil.which("openssl") is None:
        pytest.skip("NOT TESTED: there is no openssl to make a certificate with")
    cert, key = folder / "cert.pem", folder / "key.pem"
    argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    argv += ["-keyout", str(key), "-out", str(cert), "-days", "2", "-subj", "/CN=localhost"]
    subprocess.run([*argv, "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(cert, key)
    return cert, tls
