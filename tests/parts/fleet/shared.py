"""A fleet that the tests of a file share: one database, and machines that are started once."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.cli.place import PLAN
from tests.parts.fleet.machines import Fleet

GATED = (
    'agent = "command"\n[agents.command]\n'
    'argv = ["sh", "-c", "until [ -e {gate} ]; do sleep 0.2; done; echo $SEGUE_TASK > f$SEGUE_TASK"]\n'
)
"""Settings with an agent that works only while the gate is open."""


def new_database(server: str) -> str:
    """Return the URL of a fresh database."""
    name = f"segue_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return server.replace("/postgres?", f"/{name}?")


@contextmanager
def sharing(root: Path, server: str, plan: str = PLAN) -> Iterator[Fleet]:
    """A fleet on a fresh database, without machines yet."""
    fleet = Fleet(root, new_database(server), plan)
    try:
        yield fleet
    finally:
        fleet.close()
