"""An agent that reads more lines while it works is told each of them once, whoever started it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from segue.system.process.group import PORTABLE
from segue.system.process.processes import Chunk, Command, Processes
from tests.system.process_driver import follow, kill_driver, shell, start_driver, wait_for

_AGENT = 'while read -r line; do echo "got $line"; case $line in last) echo "{END}";; esac; done; echo closed'
BOTH = pytest.mark.parametrize("portable", ["0", "1"], ids=["native", "threads"])


def _agent(work: Path, prompt: bytes) -> Command:
    return replace(shell(_AGENT, work, prompt), turn_end="{END}")


async def _tell_while_at_work(folder: Path, command: Command, lines: list[tuple[int, str]]) -> bytes:
    out = b""
    async with Processes(folder) as processes:
        async for item in processes.run("t1", command):
            if isinstance(item, Chunk):
                out += item.data
                while lines and b"got" in out:
                    processes.tell("t1", *lines.pop(0))
    return out


@BOTH
def test_an_agent_is_told_lines_until_it_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, portable: str
) -> None:
    monkeypatch.setenv(PORTABLE, portable)
    lines = [(7, "more"), (7, "more"), (12, "last"), (9, "too late, and out of order")]
    out = asyncio.run(_tell_while_at_work(tmp_path / "run", _agent(tmp_path, b"first\n"), lines))
    assert out.startswith(b"got first\ngot more\n")
    assert out.endswith(b"got last\n{END}\nclosed\n")
    assert out.count(b"more") == 1


@BOTH
def test_a_long_prompt_arrives_whole_and_an_agent_that_is_done_at_once_is_told_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, portable: str
) -> None:
    monkeypatch.setenv(PORTABLE, portable)
    prompt = b"x" * 300_000 + b"\nlast\n"
    out = asyncio.run(_tell_while_at_work(tmp_path / "run", _agent(tmp_path, prompt), []))
    assert out == b"got " + b"x" * 300_000 + b"\ngot last\n{END}\nclosed\n"


def test_an_agent_that_outlived_segue_is_told_once_what_was_told_before_the_kill(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    driver = start_driver(folder, _AGENT, turn_end="{END}", prompt="first\n")
    spool = folder / "jobs" / "t1" / "out"
    wait_for(lambda: spool.exists() and b"got" in spool.read_bytes(), "the agent's first output")

    async def tell(*lines: tuple[int, str]) -> bytes:
        async with Processes(folder) as processes:
            for line in lines:
                processes.tell("t1", *line)
            return (await follow(processes, "t1", _agent(tmp_path, b"first\n"))).out

    Processes(folder).tell("t1", 3, "one")
    wait_for(lambda: b"got one" in spool.read_bytes(), "what it was told")
    kill_driver(driver)
    out = asyncio.run(tell((3, "one"), (4, "two"), (5, "last")))
    assert out.count(b"got one") == 1
    assert out.endswith(b"got one\ngot two\ngot last\n{END}\nclosed\n")
