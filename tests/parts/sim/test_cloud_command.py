"""The simulators start from the command line, say where they listen, and end with Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import loopback
from tests.parts.sim.cloud_desk import DEADLINE, REPO, bare_repository

AUTH = {"Authorization": "Bearer crsr_x"}


@contextmanager
def started(*argv: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A simulator as a process, and its address; ended with Ctrl-C."""
    with subprocess.Popen([sys.executable, "-m", *argv], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            line = process.stdout.readline()
            assert line.startswith("listening on http://127.0.0.1:")
            yield process, line.split()[-1]
            process.send_signal(signal.SIGINT)
            assert process.wait(DEADLINE) == 0
        finally:
            process.kill()


@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C is sent otherwise there")
def test_the_cloud(tmp_path: Path) -> None:
    bare = bare_repository(tmp_path)
    script = tmp_path / "script.toml"
    script.write_text('[[on]]\nsay = "From the script"\n')
    options = ["--port", "0", "--repo", f"{REPO}={bare}", "--script", str(script)]
    with started("segue", "sim", "cursor", *options) as (_, url):
        body = {"prompt": {"text": "x"}, "repos": [{"url": REPO}]}
        made = loopback.post(f"{url}/v1/agents", json=body, headers=AUTH).json()
        stream = f"{url}/v1/agents/{made['agent']['id']}/runs/{made['run']['id']}/stream"
        assert "From the script" in loopback.get(stream, headers=AUTH).text


@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C is sent otherwise there")
def test_the_models(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('[{"reply": "From the script"}]')
    with started("segue", "sim", "llm", "--script", str(script)) as (_, url):
        body = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
        answer = loopback.post(f"{url}/v1/chat/completions", json=body, headers=AUTH)
        assert answer.json()["choices"][0]["message"]["content"] == "From the script"


@pytest.mark.quick("arguments3-wrong.toml: on[0].sayy: ")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--repo", "nonsense"], "URL=PATH"),
        (["--repo", f"{REPO}=/nowhere/app.git"], "is not a bare git repository"),
        (["--script", "nowhere.toml"], "cannot be read"),
        (["--script", "wrong.toml"], "wrong.toml: on[0].sayy: "),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, arguments: list[str], words: str) -> None:
    (tmp_path / "wrong.toml").write_text('[[on]]\nsayy = "x"\n')
    done = subprocess.run(
        [sys.executable, "-m", "segue", "sim", "cursor", *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with started("segue", "sim", "llm") as (_, url):
        port = url.rpartition(":")[2]
        done = subprocess.run(
            [sys.executable, "-m", "segue", "sim", "llm", "--port", port],
            capture_output=True,
            text=True,
            timeout=DEADLINE,
        )
        assert done.returncode == 2
        assert f"Cannot listen on 127.0.0.1:{port}" in done.stderr
