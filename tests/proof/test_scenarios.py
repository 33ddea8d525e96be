"""Scenarios see the program from outside, sealed: what it prints and what it answers."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from segue.domain.options import OptionError, read_options
from segue.domain.proof import CheckResult, CheckState, Seal
from segue.domain.scenario import Scenario, scenarios_in
from tests.proof.projects import Checkout, Files, needs_sandbox

GREET: Files = {"greet.py": "import sys\nprint('Hello', sys.argv[1])\n"}
SERVER = """import json, os, sys
from http.server import BaseHTTPRequestHandler, HTTPServer


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.send_response(201)
        self.end_headers()
        self.wfile.write(json.dumps({"name": body, "path": self.path, "by": self.headers["X-By"]}).encode())


HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
CREATE = {
    "start": [sys.executable, "server.py", "{port}"],
    "request": {"method": "POST", "path": "/users?x=1", "body": "Ada", "headers": {"X-By": "me"}},
    "status": 201,
    "json": {"name": "Ada", "by": "me"},
}


def try_scenario(place: Checkout, table: dict[str, Any], head: str, base: str | None) -> CheckResult:
    scenario = read_options(Scenario, table)
    return asyncio.run(place.sealer().try_scenario(scenario, base, head))


@needs_sandbox
def test_scenario_that_fails_on_the_base_and_passes_now_proves_the_task(tmp_path: Path) -> None:
    place = Checkout(tmp_path, {"readme.md": "x\n"})
    head = place.commit(GREET)
    table = {"run": [sys.executable, "greet.py", "Ada"], "stdout": "Hello Ada", "contains": "Ada"}
    result = try_scenario(place, {"name": "greets", **table}, head, place.base)
    assert (result.state, result.proved, result.seal) == (
        CheckState.PASSED,
        ("scenario: greets",),
        Seal.SEALED,
    )
    again = try_scenario(place, {"name": "greets", **table}, head, head)
    assert (again.state, again.proved, again.idle) == (CheckState.PASSED, (), ("scenario: greets",))


@needs_sandbox
def test_scenario_says_what_was_expected_and_what_came(tmp_path: Path) -> None:
    place = Checkout(tmp_path, GREET)
    table = {"run": [sys.executable, "greet.py", "Bob"], "stdout": "Hello Ada", "exit_code": 3}
    result = try_scenario(place, table, place.base, None)
    assert result.state is CheckState.FAILED
    assert result.reason == ("Expected exit code 3; the output `Hello Ada`. Got exit code 0; `Hello Bob`.")


@needs_sandbox
def test_request_is_sent_to_the_program_of_the_work(tmp_path: Path) -> None:
    place = Checkout(tmp_path, {"readme.md": "x\n"})
    head = place.commit({"server.py": SERVER})
    result = try_scenario(place, CREATE, head, place.base)
    assert result.proved == ("scenario: POST /users?x=1",), result
    wrong = try_scenario(place, {**CREATE, "json": {"name": "Bob"}}, head, None)
    assert wrong.state is CheckState.FAILED
    assert '"name": "Bob"' in wrong.reason
    assert '"name": "Ada"' in wrong.reason


@needs_sandbox
def test_program_that_ends_before_it_answers_is_a_failure_with_its_last_words(tmp_path: Path) -> None:
    place = Checkout(tmp_path, {"server.py": "import sys\nsys.exit('no database')\n"})
    result = try_scenario(place, CREATE, place.base, None)
    assert result.state is CheckState.FAILED
    assert "ended with exit code 1" in result.reason
    assert "no database" in result.output


@needs_sandbox
def test_scenario_cannot_reach_the_work_tree_or_the_network(tmp_path: Path) -> None:
    reach = "import socket\nopen('left.txt', 'w').write('x')\nprint(len(socket.if_nameindex()))\n"
    place = Checkout(tmp_path, {"reach.py": reach})
    result = try_scenario(place, {"run": [sys.executable, "reach.py"], "stdout": "1"}, place.base, None)
    assert result.state is CheckState.PASSED
    assert not (place.root / "left.txt").exists()


TEXT = """Greet people.

- Like this:

  ```scenario
  run = "python3 greet.py Ada"
  stdout = "Hello Ada"
  ```
"""


def test_scenario_is_read_from_the_text_of_a_task() -> None:
    (found,) = scenarios_in(TEXT)
    assert (found.run, found.stdout, found.title) == (
        ("python3", "greet.py", "Ada"),
        "Hello Ada",
        "python3 greet.py Ada",
    )


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('run = "a"\nfoo = 1', "foo"),
        ('run = "a"\nstatus = 200', "status"),
        ('run = "a"\ntask = "2"', "task"),
        ('request = {path = "/"}', "start"),
        ('start = "a"\nrequest = {path = "x"}', "request.path"),
        ('name = "nothing to do"', ""),
        ("run", ""),
    ],
)
def test_mistake_in_a_scenario_is_named(body: str, said: str) -> None:
    with pytest.raises(OptionError) as caught:
        scenarios_in(f"```scenario\n{body}\n```\n")
    assert caught.value.path == said
