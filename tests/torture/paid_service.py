"""A paid service for the torture test: launching is never idempotent, every launch is counted."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any


class PaidService:
    """Serves `launch` and `find` on a socket. Requests count in the order of connecting."""

    def __init__(self, address: Path, before: float = 0.01, after: float = 0.01) -> None:
        self.launches: Counter[str] = Counter()
        self.launched = threading.Event()
        self.answering = threading.Event()
        self.answering.set()
        self._before = before
        self._after = after
        self._pending: dict[str, threading.Event] = {}
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(address))
        self._listener.listen(100)
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """Take no more requests."""
        self._listener.close()

    def _serve(self) -> None:
        """Read each request before the next is accepted: a client that was killed had its turn first."""
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            line = client.makefile("rb").readline()
            if not line.endswith(b"\n"):
                client.close()
                continue
            request = json.loads(line)
            earlier = self._pending.get(request["token"])
            if request["do"] == "launch":
                self._pending[request["token"]] = threading.Event()
            threading.Thread(target=self._answer, args=(client, request, earlier), daemon=True).start()

    def _answer(
        self, client: socket.socket, request: dict[str, str], earlier: threading.Event | None
    ) -> None:
        token = request["token"]
        if request["do"] == "launch":
            time.sleep(self._before)
            self.launches[token] += 1
            self._pending[token].set()
            self.launched.set()
            time.sleep(self._after)
            self.answering.wait()
        elif earlier is not None:
            earlier.wait()
        with suppress(OSError):  # the client may have been killed
            client.sendall(json.dumps({"launched": self.launches[token] > 0}).encode() + b"\n")
        client.close()


def ask(address: str, do: str, token: str) -> dict[str, Any]:
    """Ask the service; blocks, as a careless client would."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(address)
        client.sendall(json.dumps({"do": do, "token": token}).encode() + b"\n")
        answer: dict[str, Any] = json.loads(client.makefile("rb").readline())
    return answer
