"""A relay in its own process, and a client for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from tests import loopback
from tests.cli.place import DEADLINE, until
from tests.warm import run_segue, start_segue

PYTHON = json.dumps(sys.executable)


@dataclass
class RelayPlace:
    """The settings, state and token of a relay."""

    root: Path
    env: dict[str, str] = field(default_factory=dict)
    token: str = ""

    @classmethod
    def make(cls, root: Path, config: str) -> RelayPlace:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("SEGUE_", "XDG_"))}
        kept["SEGUE_ISOLATION"] = "none"
        home = root / "home"
        home.mkdir(parents=True)
        place = cls(root, {**kept, "HOME": str(home), "SEGUE_STATE_DIR": str(root / "state")})
        place.env |= {"XDG_CONFIG_HOME": str(root / "config"), "XDG_STATE_HOME": str(root / "user")}
        place.env["SEGUE_TRUST"] = "1"
        place.config.write_text(config)
        place.token = place.segue("token").stdout.strip()
        return place

    @property
    def config(self) -> Path:
        return self.root / "relay.toml"

    @property
    def folder(self) -> Path:
        [found] = (self.root / "user" / "segue" / "private").glob("for-*/relay")
        return found

    def segue(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        words = ("relay", *words, "--config", str(self.config))
        done = run_segue(words, self.root, self.env, DEADLINE)
        assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def start(self, *words: str) -> Relay:
        """Start the relay and wait until it listens."""
        log = self.root / "relay.out"
        log.unlink(missing_ok=True)
        args = ["relay", "serve", "--port", "0", "--json", "--config", str(self.config), *words]
        with log.open("w") as out:
            process = start_segue(args, self.root, self.env, out)
        until(lambda: "listening" in log.read_text() or process.poll() is not None, "the relay")
        assert process.poll() is None, log.read_text()
        url = json.loads(log.read_text().splitlines()[-1])["url"]
        return Relay(self, process, url)

    @contextmanager
    def serving(self) -> Iterator[Relay]:
        relay = self.start()
        try:
            yield relay
        finally:
            relay.stop()

    def audit(self) -> list[dict[str, Any]]:
        path = self.folder / "audit.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def events(self) -> list[str]:
        return [record["event"] for record in self.audit()]


@dataclass
class Relay:
    """A running relay."""

    place: RelayPlace
    process: subprocess.Popen[str]
    url: str

    def run(
        self, action: str, key: str | None = None, token: str | None = None, **parameters: Any
    ) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {self.place.token if token is None else token}"}
        if key is not None:
            headers["Idempotency-Key"] = key
        body = {"action": action, **({"parameters": parameters} if parameters else {})}
        return loopback.post(f"{self.url}/run", json=body, headers=headers, timeout=DEADLINE)

    def get(self, path: str, **headers: str) -> httpx2.Response:
        given = {"Authorization": f"Bearer {self.place.token}", **headers}
        return loopback.get(self.url + path, headers=given, timeout=DEADLINE)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(DEADLINE)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(DEADLINE)
