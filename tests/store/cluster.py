"""A Postgres of a test's own, which it may stop and start."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.conftest import _start


class Cluster:
    """A server that ends all its connections when it is stopped."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self.url: str = server.get_uri()

    def stop(self) -> None:
        self._server.stop()

    def start(self) -> None:
        self._server.ensure_postgres_running()
        assert self._server.get_uri() == self.url


@contextmanager
def own_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A server that nobody else uses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        server = _start(tmp_path_factory)
        try:
            yield Cluster(server)
        finally:
            server.cleanup()
