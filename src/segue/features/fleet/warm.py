"""Imported by the process from which runs are forked: does once what each of them would do first."""

# ruff: noqa: F401
import ctypes
import gc
import sys
from contextlib import suppress

import platformdirs
import psycopg
from msgspec import Struct, json

import segue.domain.mistakes
import segue.features.fleet.drive
import segue.flow.phases
import segue.runtime.tables
import segue.sources.plan.state
import segue.sources.plan.usual
import segue.store.journal
import segue.store.spool
import segue.store.store
import segue.system.supervisor.main

if sys.platform == "linux":
    import segue.system.supervisor.posix


def _know(kind: type[Struct]) -> None:
    """Let msgspec look at the fields of a class and of those derived from it; it remembers them."""
    for derived in kind.__subclasses__():
        if derived.__module__.startswith("segue."):
            with suppress(NameError, TypeError):  # some are never read from JSON
                json.Decoder(derived)
        _know(derived)


_know(Struct)
gc.collect()
gc.freeze()  # what is there is shared by all runs, and never looked at again
