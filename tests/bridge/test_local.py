"""Conversations with programs on this machine: clones for subagents, the real relay, reminders, kills."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.place import DEADLINE, Place, until

AGENT = """
import os, pathlib, sys, time
text = sys.stdin.read()
log = pathlib.Path(r"{root}") / "log"
log.mkdir(exist_ok=True)
who = "sub" if "Do the task that stands" in text else "talk"
(log / f"{{who}}-{{time.time_ns()}}").write_text(text)
if who == "sub":
    pathlib.Path("done.txt").write_text("work")
    while (pathlib.Path(r"{root}") / "hold").exists():
        time.sleep(0.02)
    print("I did it.")
else:
    number = len(list(log.glob("talk-*")))
    reply = pathlib.Path(r"{root}") / f"reply-{{number}}"
    print(reply.read_text() if reply.exists() else "All is done.")
"""


class Desk:
    """A place with a program as agent, a folder for it, and a repository for its subagents."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.root = place.root
        (self.root / "agent.py").write_text(AGENT.format(root=self.root))
        (self.root / "env").mkdir()
        self.configure()

    def configure(self, more: str = "", top: str = "") -> None:
        self.place.config(
            f'agent = "command"\n{top}[agents.command]\nargv = ["{sys.executable}", "{self.root}/agent.py"]\n'
            f'[bridge]\nallow_repos = [{{ repo = "github.com/me/app", folder = "{self.place.repo}" }}]\n'
            f"{more}\n"
        )

    def replies(self, *texts: str) -> None:
        for number, text in enumerate(texts, 1):
            (self.root / f"reply-{number}").write_text(text)

    def asked(self, who: str = "talk") -> list[str]:
        return [path.read_text() for path in sorted((self.root / "log").glob(f"{who}-*"))]

    def run(self, *args: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        return self.place.segue("bridge", "run", "--repo", str(self.root / "env"), *args, "Go", code=code)


@pytest.fixture
def desk(place: Place) -> Desk:
    return Desk(place)


def test_a_subagent_works_in_a_clone_and_hands_in_a_branch(desk: Desk) -> None:
    (desk.place.repo / "mine.txt").write_text("uncommitted")
    desk.replies("SUBAGENT: repo=https://github.com/ME/app.git, prompt=Write done.txt")
    desk.run()
    assert desk.place.git("status", "--porcelain").split() == ["??", "mine.txt"]
    [branch] = [b.strip() for b in desk.place.git("branch", "--list", "segue/*").splitlines()]
    assert desk.place.git("show", f"{branch}:done.txt") == "work"
    assert f"branch={branch}" in desk.asked()[1]
    assert not list(desk.root.glob("state/segue/runs/*/clones/*"))


def test_an_agent_that_cannot_remember_is_told_what_was_said(desk: Desk) -> None:
    desk.replies("First thought.\nLOCAL_ACTION: unknown")
    desk.run()
    assert "First thought." in desk.asked()[1]
    assert "The user:\nGo" in desk.asked()[1]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("SUBAGENT: repo={repo}/../repo, prompt=x", None),
        ("SUBAGENT: repo={repo}/.., prompt=x", "not on the allow-list"),
        ("SUBAGENT: repo=/etc, prompt=x", "not on the allow-list"),
        ("SUBAGENT: repo=github.com/me/app, agent=claude, prompt=x", "agent claude is not allowed"),
        ("SUBAGENT: repo=github.com/me/app, branch=no-such-branch, prompt=x", "no-such-branch"),
    ],
)
def test_folders_agents_and_branches_are_checked(desk: Desk, line: str, says: str | None) -> None:
    desk.replies(line.format(repo=desk.place.repo))
    desk.run()
    assert len(desk.asked("sub")) == (says is None)
    assert (says or "status=done") in desk.asked()[1]


def test_the_limits_must_not_lie_where_the_agent_works(desk: Desk) -> None:
    done = desk.place.segue("bridge", "run", "--repo", str(desk.root), "Go", code=2)
    assert "widen its own limits" in done.stderr
    assert desk.asked() == []


def test_all_of_a_turn_is_read_if_configured(desk: Desk) -> None:
    script = desk.root / "script.toml"
    script.write_text('[[on]]\nsay = "LOCAL_ACTION: one"\n')
    desk.configure('reads = "turn"\nrounds = 1', '[agents.scripted]\nscript = "script.toml"\n')
    desk.run("--agent", "scripted", code=3)
    [turn] = desk.place.json("bridge", "show", "last")["conversation"]
    assert [command["line"] for command in turn["commands"]] == ["LOCAL_ACTION: one"]


def test_kill_9_while_a_subagent_works_here(desk: Desk) -> None:
    (desk.root / "hold").touch()
    desk.replies("SUBAGENT: repo=github.com/me/app, prompt=Write done.txt")
    process = desk.place.start("bridge", "run", "--repo", str(desk.root / "env"), "Go")
    until(lambda: desk.asked("sub"), "the subagent works")
    process.kill()
    assert process.wait(DEADLINE) == -signal.SIGKILL
    (desk.root / "hold").unlink()
    assert desk.run().stdout.strip() == "All is done."
    assert len(desk.asked("sub")) == 1
    assert len(desk.asked("talk")) == 2
    assert "segue/" in desk.place.git("branch", "--list", "segue/*")


@pytest.fixture
def relay(desk: Desk) -> Iterator[Desk]:
    """The real relay in a process of its own, with one action that works and one that fails."""
    token = desk.place.json("relay", "token")["token"]
    desk.place.env["SEGUE_RELAY_TOKEN"] = token
    (desk.root / "backup.py").write_text(
        f"import sys\nopen(r'{desk.root}/ran', 'a').write('x')\nprint('saved', sys.argv[1])\n"
    )
    (desk.root / "relay.toml").write_text(
        f'[relay.actions.backup]\nargv = ["{sys.executable}", "{desk.root}/backup.py", "{{where}}"]\n'
        'parameters = { where = "[a-z]+" }\n'
        f'[relay.actions.broken]\nargv = ["{sys.executable}", "-c", "raise SystemExit(7)"]\n'
    )
    out = desk.root / "relay.out"
    with out.open("w") as file:
        process = subprocess.Popen(
            desk.place.command(
                "relay", "serve", "--port", "0", "--json", "--config", str(desk.root / "relay.toml")
            ),
            env=desk.place.env,
            stdout=file,
            cwd=desk.root,
        )
    until(lambda: "\n" in out.read_text(), "the relay listens")
    desk.configure(f'relay_url = "{json.loads(out.read_text())["url"]}"')
    yield desk
    process.terminate()
    process.wait(DEADLINE)


def test_actions_go_to_the_relay_and_every_outcome_is_told(relay: Desk) -> None:
    lines = ["backup, where=home", "broken", "unknown", "backup, where=../etc"]
    relay.replies("\n".join(f"LOCAL_ACTION: {line}" for line in lines))
    relay.run()
    told = relay.asked()[1]
    assert "| saved home" in told
    assert "exit_code=7" in told
    assert "status=failed, action=broken" in told
    assert told.count("status=refused") == 2
    assert (relay.root / "ran").read_text() == "x"
    relay.place.env["SEGUE_RELAY_TOKEN"] = "wrong"
    (relay.root / "reply-3").write_text("LOCAL_ACTION: broken")
    relay.run("--new")
    assert "does not know this token" in relay.asked()[3]


def test_a_relay_that_is_away_is_told(desk: Desk) -> None:
    desk.place.env["SEGUE_RELAY_TOKEN"] = "some-token"
    desk.configure('relay_url = "http://127.0.0.1:9"\nrelay_timeout = 1')
    desk.replies("LOCAL_ACTION: backup")
    desk.run()
    assert "status=unreachable" in desk.asked()[1]


def test_reminders_survive_and_are_sent_to_agent_and_people(desk: Desk) -> None:
    desk.configure("[notify.terminal]\nenabled = true")
    desk.replies("REMIND: in 2s, look at the build")
    done = desk.run()
    assert "next reminder" in done.stderr
    [listed] = desk.place.json("bridge", "list")
    assert listed["state"] == "parked"
    assert listed["wake"]
    done = desk.place.segue("bridge", "resume", "last", "--wait-reminders")
    assert "look at the build" in done.stderr
    assert "status=due" in desk.asked()[1]
    assert "look at the build" in desk.asked()[1]
    assert desk.place.json("bridge", "list")[0]["state"] == "done"
    assert len(desk.asked()) == 2


def test_further_commands_come_from_plugins(desk: Desk) -> None:
    site = desk.root / "site" / "plug-1.0.dist-info"
    site.mkdir(parents=True)
    (site / "METADATA").write_text("Metadata-Version: 2.1\nName: plug\nVersion: 1.0\n")
    (site / "entry_points.txt").write_text("[segue.bridge]\nDEPLOY = plug:deploy\nBREAK = plug:broken\n")
    (site.parent / "plug.py").write_text(
        "async def deploy(payload, token):\n    return {'to': payload['to'], 'token': len(token)}\n"
        "async def broken(payload, token):\n    raise RuntimeError('no luck')\n"
    )
    desk.place.env["PYTHONPATH"] = str(site.parent)
    desk.configure('extensions = ["DEPLOY", "BREAK", "ABSENT"]')
    desk.replies('DEPLOY: {"to": "prod"}\nBREAK: {}\nABSENT: {}\nOTHER: {}')
    desk.run()
    told = desk.asked()[1]
    assert '| {"to": "prod", "token": 32}' in told
    assert "no luck" in told
    assert "nothing is installed for ABSENT" in told
    assert "OTHER" not in told.partition("<<<results")[2]


def test_the_token_of_the_relay_may_lie_in_a_file(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("")
    desk.configure('relay_url = "http://127.0.0.1:9"\nrelay_token_file = "token"')
    desk.replies("LOCAL_ACTION: backup")
    desk.run()
    assert "token is not set" in desk.asked()[1]


def test_the_demo_shows_all_of_it(place: Place) -> None:
    done = place.segue("demo", "bridge", "--dir", str(place.root / "demo"))
    assert done.stdout.strip() == "Time to look at the health check: its branch is ready."
    state = str(place.root / "demo" / "bridge" / "state")
    [first, second, third] = place.json("bridge", "show", "last", SEGUE_STATE_DIR=state)["conversation"]
    statuses = [command["result"]["status"] for command in first["commands"]]
    assert statuses == ["done", "refused", "done", "set"]
    assert "saved/home" in second["results"]
    assert "status=due" in third["results"]
