"""Each stand-in starts alone, prints where it is, and imports nothing of Segue."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import loopback

HERE = Path(__file__).parent
NAMES = sorted(
    path.stem for path in HERE.glob("*.py") if path.stem not in ("__init__", "serving", "test_alone")
)


@pytest.mark.parametrize("name", NAMES)
def test_stand_in_starts_alone(name: str) -> None:
    argv = [sys.executable, "-m", f"tests.fakes.{name}", "--port", "0"]
    with subprocess.Popen(argv, cwd=HERE.parents[1], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        said = child.stdout.readline().strip()
        if found := re.search(r"http://127\.0\.0\.1:\d+", said):
            assert loopback.get(f"{found[0]}/_sim/log").json() == {"requests": []}
        else:
            assert re.search(r"127\.0\.0\.1:\d+", said) or Path(said).is_dir()
        child.send_signal(signal.SIGTERM)


@pytest.mark.parametrize("name", [*NAMES, "serving"])
def test_stand_in_knows_nothing_of_segue(name: str) -> None:
    assert not re.search(r"^\s*(from|import) segue", (HERE / f"{name}.py").read_text(), re.MULTILINE)


def test_agents_in_the_cloud_follow_a_script(tmp_path: Path) -> None:
    script = tmp_path / "script.toml"
    script.write_text('keys = ["k"]\n[[on]]\nprompt = "Write (?P<what>\\\\w+)"\nsay = "Wrote {what}"\n')
    argv = [sys.executable, "-m", "tests.fakes.cursor_cloud", "--script", str(script)]
    with subprocess.Popen(argv, cwd=HERE.parents[1], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        url = child.stdout.readline().split()[-1]
        assert loopback.get(f"{url}/v1/models").status_code == 401
        with loopback.client(base_url=url, headers={"Authorization": "Bearer k"}) as client:
            made = client.post("/v1/agents", json={"prompt": {"text": "Write tests"}}).json()
            stream = client.get(f"/v1/agents/{made['agent']['id']}/runs/{made['run']['id']}/stream").text
            assert '"text": "Wrote tests"' in stream
            assert client.get(f"/v0/agents/{made['agent']['id']}").json()["status"] == "FINISHED"
        child.send_signal(signal.SIGTERM)


def test_cursor_program_refuses_and_answers_as_the_real_one(tmp_path: Path) -> None:
    def call(*args: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "tests.fakes.cursor_cli", *args]
        return subprocess.run(
            argv, cwd=HERE.parents[1], input="Why?", capture_output=True, text=True, timeout=60, check=False
        )

    assert re.fullmatch(r"\d{4}\.\d\d\.\d\d-[0-9a-f]+\n", call("--version").stdout)
    refused = call("-p", "--workspace", str(tmp_path))
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "Workspace Trust Required" in refused.stderr
    assert call("-p", "--trust", "--mode", "ask", "--workspace", str(tmp_path)).stdout == "You asked: Why?\n"


def test_github_shows_what_it_was_given(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    issue = {"title": "T", "labels": ["ready"], "blocked_by": [2]}
    shop = {"labels": ["ready"], "issues": [issue, {"title": "U"}]}
    faults = [{"on": "GET /repos/*/*/labels", "status": 502}]
    script.write_text(json.dumps({"repos": {"acme/shop": shop}, "tokens": {"k": "bot"}, "faults": faults}))
    argv = [sys.executable, "-m", "tests.fakes.github", "--script", str(script)]
    with subprocess.Popen(argv, cwd=HERE.parents[1], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        url = f"{child.stdout.readline().split()[-1]}/repos/acme/shop"
        assert loopback.get(f"{url}/issues").status_code == 401
        with loopback.client(headers={"authorization": "Bearer k"}) as client:
            (found,) = client.get(f"{url}/issues", params={"labels": "ready"}).json()
            assert (found["number"], found["author_association"]) == (1, "OWNER")
            assert [client.get(f"{url}/labels").status_code for _ in range(2)] == [502, 200]
            made = client.post(f"{url}/issues/1/comments", json={"body": "Hi"})
            assert (made.status_code, made.json()["user"]["login"]) == (201, "bot")
        child.send_signal(signal.SIGTERM)


def test_stet_finds_what_its_script_says(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"findings": [{"pattern": "TODO"}]}))
    argv = [sys.executable, "-m", "tests.fakes.stet", "--script", str(script), "--bin", str(tmp_path / "bin")]
    subprocess.run(argv, cwd=HERE.parents[1], check=True, capture_output=True)
    repo = tmp_path / "repo"
    named = ["git", "-c", "user.name=T", "-c", "user.email=t@localhost", "-C", str(repo)]
    subprocess.run(["git", "init", "--quiet", str(repo)], check=True)
    for text in ("", "# TODO\n"):
        (repo / "a.py").write_text(text)
        subprocess.run([*named, "add", "."], check=True)
        subprocess.run([*named, "commit", "--quiet", "-m", "x"], check=True)
    stet = [str(tmp_path / "bin" / "stet"), "start", "HEAD~1", "--json"]
    said = subprocess.run(stet, cwd=repo, capture_output=True, text=True, check=True).stdout
    (found,) = json.loads(said)["findings"]
    assert (found["file"], found["line"]) == ("a.py", 1)
