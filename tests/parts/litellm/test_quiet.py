"""Nothing is fetched when the models or the proxy start: every connection would be written down."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.parts.litellm.place import environment, prepare

CANARY = """
import os, sys

def hear(event, args):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        with open({log!r}, "a") as log:
            log.write(f"{{event}} {{args[1:] if event == 'socket.connect' else args}}\\n")

sys.addaudithook(hear)
"""
START = """
import asyncio, importlib, segue.provider, litellm
litellm.model_cost["gpt-4"]
app = importlib.import_module("litellm.proxy.proxy_server").app
from segue.system.http.server import open_server

async def start():
    async with open_server(app):
        await asyncio.sleep(1)

asyncio.run(start())
"""
"""First the models, then the proxy."""


@pytest.mark.thorough
def test_nothing_is_fetched_at_the_start(tmp_path: Path) -> None:
    prepare(tmp_path)
    log = tmp_path / "connections"
    (tmp_path / "canary").mkdir()
    (tmp_path / "canary" / "sitecustomize.py").write_text(CANARY.format(log=str(log)))
    env = environment(tmp_path)
    env.pop("LITELLM_LOCAL_MODEL_COST_MAP")
    env |= {"PYTHONPATH": str(tmp_path / "canary"), "LITELLM_MASTER_KEY": "sk-of-the-test-1234567"}
    done = subprocess.run(
        [sys.executable, "-c", START], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert (log.read_text() if log.exists() else "") == ""


def test_the_canary_sings(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(CANARY.format(log=str(tmp_path / "connections")))
    code = "import socket; socket.socket().connect_ex(('127.0.0.1', 9))"
    subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(tmp_path)}, check=True)
    assert "socket.connect" in (tmp_path / "connections").read_text()
