"""Secrets of every shape, planted in every encoding where agents and checks write: no sink has them."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from segue.cli.terminal.output import report_error
from tests.cli.hosted import Hosted, host
from tests.cli.place import Place
from tests.features.notify.servers import webhook
from tests.system.shapes import ENCODINGS, KNOWN, SHAPES
from tests.system.test_shapes import PIECE
from tests.web.place import serving

IN_REMOTE, IN_NETRC = "r3m0te-T0ken-a1B2c3D4e5", "netrc-Passw0rd-f6G7h8"
SECRETS = {**SHAPES, **KNOWN, "remote": IN_REMOTE, "netrc": IN_NETRC}


def plant(is_all: bool) -> dict[str, tuple[str, str]]:
    """Return what is planted: every secret in every encoding, or each of both at least once."""
    names, ways = list(SECRETS), list(ENCODINGS)
    pairs = [(name, way) for name in names for way in ways]
    if not is_all:
        pairs = [(names[place % len(names)], way) for place, way in enumerate(ways)]
    return {f"{name}, {way}": (SECRETS[name], ENCODINGS[way](SECRETS[name])) for name, way in pairs}


class Sinks:
    """What came out of each sink."""

    def __init__(self, planted: dict[str, tuple[str, str]]) -> None:
        self.texts: dict[str, str] = {}
        self._pieces: dict[str, str] = {}
        for name, (secret, encoded) in planted.items():
            words = [word for word in (*encoded.split("\n"), *secret.split("\n")) if "-----" not in word]
            for word in words:
                for at in range(0, max(1, len(word) - PIECE + 1), 4):
                    if len(piece := word[at : at + PIECE]) == PIECE:
                        self._pieces.setdefault(piece, name)

    def add(self, name: str, text: str) -> None:
        assert text, f"{name} is empty, so nothing was looked for"
        self.texts[name] = text

    def check(self) -> None:
        found = {
            sink: {name for piece, name in self._pieces.items() if piece in text}
            for sink, text in self.texts.items()
        }
        assert {sink: sorted(names)[:8] for sink, names in found.items() if names} == {}


@pytest.fixture
def hosted(tmp_path: Path) -> Iterator[Hosted]:
    place = Place.make(tmp_path, plan="# Plan\n\n## Task 1\nWrite one.\n\n## Task 2\nWrite two.\n")
    place.git("remote", "add", "mirror", f"https://{IN_REMOTE}@example.org/shop.git")
    home = Path(place.env["HOME"])
    home.mkdir(exist_ok=True)
    (home / ".netrc").write_text(f"machine example.org login me password {IN_NETRC}\n")
    place.env |= {f"{name.upper()}_TOKEN": value for name, value in KNOWN.items()}
    with host(place) as made:
        yield made


def run(hosted: Hosted, planted: dict[str, tuple[str, str]], hook: str) -> str:
    """Let an agent say, print and write everything, and a check print it; return what the run printed."""
    texts = [encoded for _, encoded in planted.values()]
    said = "\n".join(f'+key = "{text}"' for text in texts)
    check = hosted.place.root / "check.py"
    check.write_text(f"import sys\nprint({said!r})\nsys.exit(1)\n")
    script = (
        f'[[on]]\nsay = {json.dumps(said)}\nstderr = {json.dumps(said)}\nwrite = {{ "f{{task}}" = "1" }}\n'
    )
    head = f'checks = [["{sys.executable}", "{check}"]]\n'
    hosted.settings(
        f'\n[notify]\non = ["needs_human", "run_finished"]\n[notify.webhook]\nurl = "{hook}"\n', head, script
    )
    done = hosted.place.segue("run", "plan.md", "--pr", code=None)
    return done.stdout + done.stderr


def collect_files(sinks: Sinks, place: Place) -> None:
    """Everything in the state folder but the guard's copies: those are put back, so they are as they were."""
    state = place.root / "state"
    files = [path for path in state.rglob("*") if path.is_file() and "guard" not in path.parts]
    sinks.add("state", "\n".join(path.read_bytes().decode("utf-8", "replace") for path in files))


def collect_exports(sinks: Sinks, place: Place) -> None:
    for words in (
        ["logs"],
        ["logs", "--json"],
        ["status", "last", "--json"],
        ["report"],
        ["proof", "last", "--markdown"],
    ):
        sinks.add(" ".join(words), place.segue(*words, code=None).stdout)
    for kind in ("jsonl", "csv", "parquet"):
        place.segue("db", "export", "--format", kind, "-o", str(place.root / kind))
        files = [path for path in (place.root / kind).rglob("*") if path.is_file()]
        sinks.add(kind, "\n".join(map(read, files)))


def read(path: Path) -> str:
    if path.suffix == ".parquet":
        return json.dumps(parquet.read_table(path).to_pylist(), default=str, ensure_ascii=False)
    return path.read_bytes().decode("utf-8", "replace")


def collect_page(sinks: Sinks, place: Place, run_id: str) -> None:
    with serving(place) as served:
        for path in ("/runs", f"/runs/{run_id}", f"/runs/{run_id}.json", f"/runs/{run_id}/tasks/1"):
            sinks.add(path, served.get(path).text)
        with served.client.stream("GET", f"{served.url}/live?run={run_id}&after=0") as live:
            said = ""
            for piece in live.iter_text():
                said += piece
                if said.count("event:") >= 2:
                    break
            sinks.add("SSE", said)


def collect_answers(sinks: Sinks, place: Place, run_id: str) -> None:
    from tests.features.mcp.caller import over_stdio

    async def talk() -> None:
        async with over_stdio(place) as caller:
            for tool in ("run_status", "read_log", "read_proof"):
                sinks.add(f"MCP {tool}", json.dumps(await caller.call(tool, run=run_id), ensure_ascii=False))

    asyncio.run(talk())


def test_no_sink_has_a_secret(hosted: Hosted) -> None:
    how = "sample"
    planted = plant(how == "all")
    sinks, place = Sinks(planted), hosted.place
    with webhook() as hook:
        sinks.add("terminal", run(hosted, planted, hook.url))
        sinks.add("notifications", repr(hook.bodies))
    run_id = place.last_run()
    sinks.add("pull request", json.dumps(hosted.pulls(), ensure_ascii=False))
    collect_files(sinks, place)
    collect_exports(sinks, place)
    collect_page(sinks, place, run_id)
    collect_answers(sinks, place, run_id)
    assert "[redacted]" in sinks.texts["state"]
    sinks.check()


@pytest.mark.parametrize("traceback", ["", "1"])
def test_what_a_crash_prints_has_none(
    traceback: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SEGUE_TRACEBACK", traceback)
    monkeypatch.setenv("MY_TOKEN", KNOWN["password"])
    planted = {
        "known": (KNOWN["password"], KNOWN["password"]),
        "github": (SHAPES["github"], SHAPES["github"]),
    }
    sinks = Sinks(planted)
    error = ValueError(f"cannot connect with {KNOWN['password']} or {SHAPES['github']}")
    assert report_error(error, as_json=False) == 1
    sinks.add("stderr", capsys.readouterr().err)
    assert "[redacted]" in sinks.texts["stderr"]
    sinks.check()
