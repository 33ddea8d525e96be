"""Short tools are captured, capped and ended; a child's environment holds what is allowed and no key."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from segue.system.process.capture import probe
from segue.system.process.processes import Captured, capture, child_environment
from tests.patience import unhurried
from tests.system.process_driver import alive, wait_for


def sh(script: str, cwd: Path, stdin: bytes = b"", limit: int = 10**6, timeout: float = 300.0) -> Captured:
    return asyncio.run(capture(["/bin/sh", "-c", script], cwd, stdin=stdin, limit=limit, timeout=timeout))


def test_output_is_capped_and_the_tool_may_finish(tmp_path: Path) -> None:
    ran = sh("head -c 5000000 /dev/zero; echo end >&2", tmp_path, limit=1000)
    assert (len(ran.out), ran.err, ran.exit_code) == (1000, b"end\n", 0)


def test_a_grandchild_does_not_hold_up_the_end_and_is_ended(tmp_path: Path) -> None:
    ran = sh("sleep 1000 & echo $!", tmp_path)
    wait_for(lambda: not alive(int(ran.out)))


def test_a_tool_that_takes_too_long_is_ended_with_its_children(tmp_path: Path) -> None:
    pid = tmp_path / "pid"

    def check(factor: float) -> None:
        with pytest.raises(TimeoutError, match="did not end within"):
            sh("sleep 1000 & echo $! > pid; trap '' TERM INT; wait", tmp_path, timeout=0.3 * factor)
        assert pid.exists()
        assert pid.read_text()

    unhurried(check)
    wait_for(lambda: not alive(int(pid.read_text())))


def test_cancelling_ends_the_tool_before_it_returns(tmp_path: Path) -> None:
    async def main() -> None:
        task = asyncio.create_task(capture(["/bin/sh", "-c", "echo $$ > pid; exec sleep 1000"], tmp_path))
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not alive(int((tmp_path / "pid").read_text()))

    asyncio.run(main())


def test_a_child_gets_the_allow_list_and_what_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "AWS_SECRET_ACCESS_KEY", "GIT_TOKEN", "SEGUE_JOB", "CURSOR_API_KEY"):
        monkeypatch.setenv(name, "secret")
    for name in ("LC_TIME", "XDG_CACHE_HOME", "https_proxy", "NO_PROXY", "GIT_AUTHOR_NAME", "SSH_AUTH_SOCK"):
        monkeypatch.setenv(name, "fine")
    found = child_environment(["CURSOR_API_KEY", "NOT_SET"], {"EXTRA": "1"})
    assert {name for name, value in found.items() if value == "secret"} == {"CURSOR_API_KEY"}
    assert {name for name, value in found.items() if value == "fine"} == {
        "LC_TIME",
        "XDG_CACHE_HOME",
        "https_proxy",
        "NO_PROXY",
        "GIT_AUTHOR_NAME",
        "SSH_AUTH_SOCK",
    }
    assert found["EXTRA"] == "1"
    assert "PATH" in found


def test_a_program_that_is_too_slow_to_answer_has_not_answered_wrongly(tmp_path: Path) -> None:
    late = probe(["sleep", "1000"], 0.1, cwd=tmp_path)
    assert late is not None
    assert (late.in_time, late.out) == (False, b"")
    answered = probe(["echo", "1.2.3"], cwd=tmp_path)
    assert answered is not None
    assert (answered.in_time, answered.out) == (True, b"1.2.3\n")
    assert probe([str(tmp_path / "missing")], cwd=tmp_path) is None
