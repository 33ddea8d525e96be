"""What only a server can do to us: break connections, refuse passwords, hide behind poolers."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from segue.domain.errors import StoreError
from segue.domain.events import NoticeGiven
from segue.store import connect
from tests.store.driving import Given, driven, giving


def break_connections(url: str) -> int:
    """End every other connection to the database, as a restart or an idle timeout would."""
    with psycopg.connect(url, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchall()
    return len(rows)


def test_a_run_goes_on_when_its_connections_break(postgres: str) -> None:
    async def main() -> None:
        with connect(postgres) as store:
            async with driven(store) as journal:
                waiting = asyncio.create_task(journal.wait("news"))
                for number in range(5):
                    await journal.emit(NoticeGiven("x", number))
                    await journal.step(f"step/{number}", Given, giving())
                    assert break_connections(postgres) >= 1
                assert len(store.steps(journal.run.id)) == 5
                store.send(journal.run.id, "news", {"n": 1})
                assert await asyncio.wait_for(waiting, 120) == {"n": 1}
            events = list(store.events(journal.run.id))
        assert [event.seq for event in events] == list(range(1, 16))

    asyncio.run(main())


def test_a_transaction_that_was_committed_before_the_connection_broke_is_not_written_twice(
    postgres: str,
) -> None:
    """The commit went through, its confirmation did not: what is repeated must change nothing."""

    async def main() -> None:
        with connect(postgres) as store:
            async with driven(store) as journal:
                await journal.step("a", Given, giving())
                log = journal._log
                for number in range(3):
                    log.add(NoticeGiven("x", number))
                batch = log._batch
                await log.write()
                await store._keeper.writer.run(  # type: ignore[union-attr]
                    lambda: log._store(batch, [], True)
                )
            assert [event.seq for event in store.events(journal.run.id)] == [1, 2, 3, 4, 5]

    asyncio.run(main())


def test_a_server_that_cannot_be_reached_is_named_without_the_password() -> None:
    with pytest.raises(StoreError) as caught:
        connect("postgresql://me:topsecret@127.0.0.1:1/db")
    assert "postgresql://me:***@127.0.0.1:1/db cannot be reached" in caught.value.message
    assert_secret(caught.value)


@pytest.mark.parametrize(
    "url", ["postgresql://me:top#secret@host/db", "postgresql://me:topsecret@host:port/db"]
)
def test_a_url_that_cannot_be_understood_is_named_without_the_password(url: str) -> None:
    with pytest.raises(StoreError) as caught:
        connect(url)
    assert_secret(caught.value)


def assert_secret(error: StoreError) -> None:
    shown = f"{error.message} {error.hint} {error.kept} {error.__cause__}"
    assert "secret" not in shown


def test_a_server_that_refuses_us_is_named_without_the_password(postgres: str) -> None:
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE DATABASE locked CONNECTION LIMIT 0")
        connection.execute("CREATE ROLE nobody LOGIN")
    url = postgres.replace("postgres:@", "nobody:topsecret@")
    url = url[: url.rindex("/segue_")] + "/locked" + url[url.index("?") :]
    with pytest.raises(StoreError, match="too many connections") as caught:
        connect(url)
    assert "password" in caught.value.hint
    assert_secret(caught.value)


def test_waiting_works_without_listening_as_behind_a_pooler(postgres: str) -> None:
    """Without the announcement only the slow look remains."""

    async def main() -> None:
        with connect(postgres) as store:
            async with driven(store) as journal:
                waiting = asyncio.create_task(journal.wait("news"))
                await asyncio.sleep(0)
                with psycopg.connect(postgres, autocommit=True) as connection:
                    connection.execute(
                        "INSERT INTO orchestrator_signals (run_id, id, n, topic, payload, sent)"
                        " VALUES (%s, 'x', 1, 'news', '{}', 0)",
                        [journal.run.id],
                    )
                assert await asyncio.wait_for(waiting, 120) == {}

    asyncio.run(main())
