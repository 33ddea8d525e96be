"""The relay on one machine and its caller on another: two network namespaces, TLS and a token."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.parts.relay.place import RelayPlace

HERE, THERE = "10.213.77.1", "10.213.77.2"
CALL = """
import json, ssl, sys, urllib.request
url, token, cafile = sys.argv[1:]
body = json.dumps({"action": "hello"}).encode()
request = urllib.request.Request(url + "/run", body, {"Authorization": "Bearer " + token})
tls = ssl.create_default_context(cafile=cafile) if cafile else None
https = urllib.request.HTTPSHandler(context=tls)
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), https)
try:
    with opener.open(request, timeout=120) as answer:
        print(answer.read().decode())
except urllib.error.HTTPError as error:
    print(json.dumps({"status": error.code}))
except OSError as error:
    print(json.dumps({"failed": str(error)}))
"""


BRIDGE = """
import asyncio, json, sys
from segue.domain.options import read_options
from segue.parts.bridge.commands import LocalAction
from segue.parts.bridge.relay_client import run_action
from segue.parts.bridge.options import BridgeSettings
settings = read_options(BridgeSettings, {"relay_url": sys.argv[1]})
done = asyncio.run(run_action(settings, LocalAction(sys.argv[2]), sys.argv[3]))
print(json.dumps({"status": done.status, **done.facts}))
"""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def machines() -> Iterator[tuple[str, str]]:
    """Two network namespaces with a cable between them."""
    one, two = (f"segue{os.getpid()}{letter}" for letter in "ab")
    try:
        for name in (one, two):
            ip("netns", "add", name)
        cable = f"sg{os.getpid() % 100000}"
        ip(
            "link",
            "add",
            f"{cable}a",
            "netns",
            one,
            "type",
            "veth",
            "peer",
            "name",
            f"{cable}b",
            "netns",
            two,
        )
        for name, end, address in ((one, "a", HERE), (two, "b", THERE)):
            ip("-n", name, "addr", "add", f"{address}/24", "dev", f"{cable}{end}")
            ip("-n", name, "link", "set", f"{cable}{end}", "up")
            ip("-n", name, "link", "set", "lo", "up")
    except (OSError, subprocess.CalledProcessError) as error:
        remove(one, two)
        pytest.skip(f"NOT TESTED: network namespaces cannot be made here ({error})")
    yield one, two
    remove(one, two)


def remove(*names: str) -> None:
    for name in names:
        if shutil.which("ip"):
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def certificate(folder: Path) -> tuple[Path, Path]:
    if shutil.which("openssl") is None:
        pytest.skip("NOT TESTED: there is no openssl to make a certificate with")
    cert, key = folder / "cert.pem", folder / "key.pem"
    argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    argv += ["-keyout", str(key), "-out", str(cert), "-days", "2", "-subj", "/CN=relay"]
    subprocess.run([*argv, "-addext", f"subjectAltName=IP:{HERE}"], check=True, capture_output=True)
    return cert, key


def call(machine: str, url: str, token: str, cafile: str = "") -> dict[str, object]:
    argv = ["ip", "netns", "exec", machine, sys.executable, "-c", CALL, url, token, cafile]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def bridge(machine: str, url: str, action: str, token: str, **env: str) -> dict[str, object]:
    """Run an action on the other machine with the bridge's own client."""
    argv = ["ip", "netns", "exec", machine, sys.executable, "-c", BRIDGE, url, action, token]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, env={**os.environ, **env})
    told: dict[str, object] = json.loads(done.stdout)
    return told


@pytest.mark.thorough
def test_two_machines_with_tls_and_a_token(tmp_path: Path, machines: tuple[str, str]) -> None:
    here, there = machines
    cert, key = certificate(tmp_path)
    table = f'[relay]\nhost = "{HERE}"\ncertfile = "{cert}"\nkeyfile = "{key}"\n'
    place = RelayPlace.make(tmp_path / "place", f'{table}[relay.actions.hello]\nargv = ["echo", "hi"]\n')
    relay = place.start(before=("ip", "netns", "exec", here))
    try:
        assert relay.url.startswith(f"https://{HERE}:")
        assert call(there, relay.url, place.token, str(cert))["stdout"] == "hi\n"
        assert call(there, relay.url, "wrong", str(cert)) == {"status": 401}
        assert "certificate verify failed" in str(call(there, relay.url, place.token)["failed"])
        assert "failed" in call(there, relay.url.replace("https:", "http:"), place.token)
        env = {"SEGUE_RELAY_TOKEN": place.token, "SSL_CERT_FILE": str(cert)}
        first = bridge(there, relay.url, "hello", "call-1", **env)
        assert (first["status"], first["stdout"]) == ("done", "hi\n")
        assert bridge(there, relay.url, "hello", "call-1", **env) == first
        assert bridge(there, relay.url, "nothing", "call-2", **env)["status"] == "refused"
    finally:
        relay.stop()
    assert [r["caller"] for r in place.audit() if r["event"] == "started"] == [THERE] * 2


def test_two_machines_through_a_tunnel(tmp_path: Path, machines: tuple[str, str]) -> None:
    here, there = machines
    table = f'[relay]\nhost = "{HERE}"\nbehind_tunnel = true\n'
    place = RelayPlace.make(tmp_path / "place", f'{table}[relay.actions.hello]\nargv = ["echo", "hi"]\n')
    relay = place.start(before=("ip", "netns", "exec", here))
    try:
        assert call(there, relay.url, place.token)["ok"] is True
        assert call(there, relay.url, "") == {"status": 401}
    finally:
        relay.stop()
