"""What an agent costs as a LiteLLM model, over its bare process, in the library and through the proxy."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.place import Place, place
from bench.table import Figure, milliseconds, more

_ROOT = Path(__file__).resolve().parent.parent
_AGENT = """#!/bin/sh
case "$1" in
  --version) echo 2026.09.28-64d2043; exit;;
  status) echo '{"status":"logged in"}'; exit;;
esac
while read -r line; do :; done
echo '{"type":"assistant","message":{"content":[{"type":"text","text":"hi"}]}}'
echo '{"type":"result","subtype":"success","result":"hi","usage":{"inputTokens":1,"outputTokens":1}}'
"""
_CONFIG = """
model_list:
  - {model_name: "composer-cli/*", litellm_params: {model: "composer-cli/*"}}
  - {model_name: "nothing/*", litellm_params: {model: "nothing/*"}}
litellm_settings:
  num_retries: 0
  custom_provider_map:
    - {provider: composer-cli, custom_handler: segue.provider.handler}
    - {provider: nothing, custom_handler: bench.provider_asks.nothing}
general_settings: {master_key: os.environ/LITELLM_MASTER_KEY}
"""
_SERVE = "import sys; from litellm.proxy.proxy_cli import run_server; run_server.main(sys.argv[1:])"
_START = 300.0

Times = dict[str, dict[str, float]]


def figures(quick: bool) -> Iterator[Figure]:
    """Measure both ways in; the bare process is the yardstick of both."""
    calls = 80 if quick else 400
    with place() as here:
        env = prepared(here)
        library = _asked(here, env, str(calls))
        yield from _rows("library", library, library["bare"], 15.0)
        with _served(here, env) as url:
            through = _asked(here, env, str(calls // 2), url)
        yield from _rows("proxy", through, library["bare"], 40.0)


def _rows(where: str, times: Times, bare: dict[str, float], target: float) -> Iterator[Figure]:
    for way, words in (("alone", "one at a time"), ("eight", "per call, eight at once")):
        ours, idle = times["segue"][way], times["nothing"][way]
        yardstick = f"bare process {milliseconds(bare[way])}, idle handler {milliseconds(idle)}"
        over = ours - bare[way]
        yield Figure(
            f"model in the {where}, {words}" if where == "library" else f"model through the {where}, {words}",
            milliseconds(ours),
            yardstick,
            more(milliseconds, over),
            f"≤ +{target:g} ms",
            over <= target,
        )


def prepared(here: Place) -> dict[str, str]:
    programs = here.folder / "bin"
    programs.mkdir()
    for name in ("agent", "cursor-agent"):
        (programs / name).write_text(_AGENT)
        (programs / name).chmod(0o755)
    (here.folder / "config.yaml").write_text(_CONFIG)
    return {
        **here.environment,
        "PATH": f"{programs}{os.pathsep}{here.environment['PATH']}",
        "PYTHONPATH": str(_ROOT),
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_MASTER_KEY": "sk-segue-bench-0123456789",
    }


def _asked(here: Place, env: dict[str, str], *arguments: str) -> Times:
    command = [sys.executable, "-m", "bench.provider_asks", *arguments]
    done = subprocess.run(command, cwd=here.folder, env=env, capture_output=True, text=True, check=True)
    times: Times = json.loads(done.stdout.splitlines()[-1])
    return times


@contextmanager
def _served(here: Place, env: dict[str, str]) -> Iterator[str]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    command = [sys.executable, "-c", _SERVE, "--config", str(here.folder / "config.yaml")]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    quiet = subprocess.DEVNULL
    server = subprocess.Popen(command, cwd=here.folder, env=env, stdout=quiet, stderr=quiet)
    try:
        await_health(f"http://127.0.0.1:{port}/health/liveliness", server)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def await_health(url: str, server: subprocess.Popen[bytes]) -> None:
    """Wait until a server answers."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    end = time.monotonic() + _START
    while server.poll() is None and time.monotonic() < end:
        try:
            opener.open(url, timeout=5).close()
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise RuntimeError("the LiteLLM proxy does not start")
