"""Conversations with programs on this machine: clones for subagents, the real relay, reminders, kills."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.cli.place import DEADLINE, Place, until

AGENT = """
import os, pathlib, sys, time
text = sys.stdin.read()
log = pathlib.Path(r"{root}") / "log"
log.mkdir(exist_ok=True)
who = "sub" if "Complete the task between" in text else "talk"
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


class LocalBridge:
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
def local(place: Place) -> LocalBridge:
    return LocalBridge(place)


def test_a_subagent_works_in_a_clone_and_pushes_a_branch(local: LocalBridge) -> None:
    (local.place.repo / "mine.txt").write_text("uncommitted")
    local.replies("SUBAGENT: repo=https://github.com/ME/app.git, prompt=Write done.txt")
    local.run()
    assert local.place.git("status", "--porcelain").split() == ["??", "mine.txt"]
    [branch] = [b.strip() for b in local.place.git("branch", "--list", "segue/*").splitlines()]
    assert local.place.git("show", f"{branch}:done.txt") == "work"
    assert f"branch={branch}" in local.asked()[1]
    assert not list(local.root.glob("state/segue/runs/*/clones/*"))


def test_an_agent_that_cannot_remember_is_told_what_was_said(local: LocalBridge) -> None:
    local.replies("First thought.\nLOCAL_ACTION: unknown")
    local.run()
    assert "First thought." in local.asked()[1]
    assert "The user:\nGo" in local.asked()[1]


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
def test_folders_agents_and_branches_are_checked(local: LocalBridge, line: str, says: str | None) -> None:
    local.replies(line.format(repo=local.place.repo))
    local.run()
    assert len(local.asked("sub")) == (says is None)
    assert (says or "status=done") in local.asked()[1]


def test_the_limits_must_not_be_where_the_agent_works(local: LocalBridge) -> None:
    done = local.place.segue("bridge", "run", "--repo", str(local.root), "Go", code=2)
    assert "widen its own limits" in done.stderr
    assert local.asked() == []


@pytest.mark.parametrize("setting", ['completion_url = "https://evil.example"', "rounds = 9999"])
def test_nothing_of_the_bridge_is_read_from_the_folder_of_the_agent(local: LocalBridge, setting: str) -> None:
    folder = local.root / "env"
    own = f'agent = "command"\n[agents.command]\nargv = ["{sys.executable}", "{local.root}/agent.py"]\n'
    (folder / "segue.toml").write_text(f"{own}[bridge]\n{setting}\n")
    (local.root / "link.toml").symlink_to(folder / "segue.toml")
    for config in (folder / "segue.toml", local.root / "link.toml"):
        done = local.run("--config", str(config), code=2)
        assert f"bridge.{setting.split()[0]}" in done.stderr
        assert "widen its own limits" in done.stderr
    assert local.asked() == []


@pytest.fixture
def relay(local: LocalBridge) -> Iterator[LocalBridge]:
    """The real relay in its own process, with one action that works and one that fails."""
    token = local.place.json("relay", "token")["token"]
    local.place.env["SEGUE_RELAY_TOKEN"] = token
    (local.root / "backup.py").write_text(
        f"import sys\nopen(r'{local.root}/ran', 'a').write('x')\nprint('saved', sys.argv[1])\n"
    )
    (local.root / "relay.toml").write_text(
        f'[relay.actions.backup]\nargv = ["{sys.executable}", "{local.root}/backup.py", "{{where}}"]\n'
        'parameters = { where = "[a-z]+" }\n'
        f'[relay.actions.broken]\nargv = ["{sys.executable}", "-c", "raise SystemExit(7)"]\n'
    )
    out = local.root / "relay.out"
    with out.open("w") as file:
        process = subprocess.Popen(
            local.place.command(
                "relay", "serve", "--port", "0", "--json", "--config", str(local.root / "relay.toml")
            ),
            env=local.place.env,
            stdout=file,
            cwd=local.root,
        )
    until(lambda: "\n" in out.read_text(), "the relay listens")
    local.configure(f'relay_url = "{json.loads(out.read_text())["url"]}"')
    yield local
    process.terminate()
    process.wait(DEADLINE)


def test_actions_go_to_the_relay_and_every_outcome_is_told(relay: LocalBridge) -> None:
    lines = ["backup, where=home", "broken", "unknown", "backup, where=../etc"]
    relay.replies("\n".join(f"LOCAL_ACTION: {line}" for line in lines))
    relay.run()
    first, told = relay.asked()
    assert "LOCAL_ACTION: backup, where=<where>   where matches [a-z]+" in first
    assert "LOCAL_ACTION: broken" in first
    assert "| saved home" in told
    assert "exit_code=7" in told
    assert "status=failed, action=broken" in told
    assert told.count("status=refused") == 2
    assert (relay.root / "ran").read_text() == "x"
    relay.place.env["SEGUE_RELAY_TOKEN"] = "wrong"
    (relay.root / "reply-3").write_text("LOCAL_ACTION: broken")
    relay.run("--new")
    assert "does not know this token" in relay.asked()[3]


def test_reminders_survive_and_are_sent_to_agent_and_people(local: LocalBridge) -> None:
    local.configure("[notify.terminal]\nenabled = true")
    local.replies("REMIND: in 2s, look at the build")
    done = local.run()
    assert "next reminder" in done.stderr
    [listed] = local.place.json("bridge", "list")
    assert listed["state"] == "parked"
    assert listed["wake"]
    done = local.place.segue("bridge", "resume", "last", "--wait-reminders")
    assert "look at the build" in done.stderr
    assert "status=due" in local.asked()[1]
    assert "look at the build" in local.asked()[1]
    assert local.place.json("bridge", "list")[0]["state"] == "done"
    assert len(local.asked()) == 2


def test_a_reply_with_nothing_but_a_mistake_gets_one_more_round(local: LocalBridge) -> None:
    local.replies("**LOCAL_ACTION: backup**", "**LOCAL_ACTION: backup**", "never asked")
    local.run()
    first, second = local.asked()
    assert "status=skipped, line=1" in second
    assert "Nothing was run" in second
    assert "the user's own words" in first
    assert "What the user asked for:" in second
    assert "written by others" not in first + second
