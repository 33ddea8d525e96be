"""The page about the simulators names every key, fault and control, and what it shows can be played."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from segue.sim.acp import script as acp
from segue.sim.chat.ntfy import NtfyScript, ntfy_app
from segue.sim.chat.press import ChatEntry
from segue.sim.chat.slack import SlackScript, slack_app
from segue.sim.cloud import script as cloud
from segue.sim.cloud.app import cloud_app
from segue.sim.github import script as hub
from segue.sim.github.app import github_app
from segue.sim.gitlab import script as lab
from segue.sim.gitlab.app import gitlab_app
from segue.sim.llm import script as llm
from segue.sim.llm.app import llm_app
from segue.sim.script import ProgramScript, check_script
from segue.sim.sessions import script as sessions
from segue.sim.sessions.app import session_app
from segue.sim.sessions.claude import CLAUDE
from tests.sim.described import describe_keys

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "simulators.md").read_text("utf-8")
SPANS = set(re.findall(r"`([^`\n]+)`", PAGE))


@pytest.mark.parametrize(
    "model",
    [
        *(cloud.CloudScript, cloud.CloudEntry, cloud.CloudFault, llm.LlmScript, llm.LlmEntry),
        *(hub.GithubScript, hub.GithubRepo, hub.GithubToken, hub.GithubFault),
        *(lab.GitlabScript, lab.GitlabToken, lab.GitlabFault),
        *(SlackScript, NtfyScript, ChatEntry),
        *(sessions.SessionScript, sessions.SessionEntry, sessions.SessionFault),
    ],
)
def test_every_key_is_explained(model: type[Any]) -> None:
    assert [row for row in describe_keys(model) if row not in PAGE] == []


def test_every_fault_is_explained() -> None:
    assert [name for name, text in cloud.RUN_FAULTS.items() if f"| `{name}` | {text} |" not in PAGE] == []
    assert [name for name, text in hub.FAULTS.items() if f"| `{name}` | {text} |" not in PAGE] == []
    assert [name for name, text in lab.FAULTS.items() if f"| `{name}` | {text} |" not in PAGE] == []
    assert [
        name for name, text in sessions.REQUEST_FAULTS.items() if f"| `{name}` | {text} |" not in PAGE
    ] == []
    assert set(cloud.REQUEST_FAULTS) - SPANS == set()


def test_every_control_is_explained() -> None:
    others = (slack_app(), ntfy_app(), session_app(CLAUDE))
    for app in (cloud_app(), llm_app(), github_app(), gitlab_app(), *others):
        paths = {path for route in app.routes if (path := getattr(route, "path", "")).startswith("/_sim/")}
        told = {span.partition(" ")[2].replace("{id}", "{agent}") for span in SPANS}
        assert paths - told <= {"/_sim/artifacts/{token}"}


@pytest.mark.parametrize(
    ("info", "model"),
    [
        ("cloud", cloud.CloudScript),
        ("llm", llm.LlmScript),
        ("github", hub.GithubScript),
        ("gitlab", lab.GitlabScript),
        ("slack", SlackScript),
        ("sessions", sessions.SessionScript),
    ],
)
def test_the_scripts_can_be_played(info: str, model: type[Any]) -> None:
    [text] = re.findall(rf"^```toml {info}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    check_script(tomllib.loads(text), model)


def test_every_word_of_the_acp_script_is_explained() -> None:
    words = {**acp.SETTINGS, **acp.SELECTORS, **acp.ACTIONS, **acp.FAULTS}
    assert [word for word, text in words.items() if f"| `{word}` | {text} |" not in PAGE] == []


def test_the_acp_script_can_be_played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [text] = re.findall(r"^```toml acp\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    script = tmp_path / "script.toml"
    script.write_text(text)
    monkeypatch.setenv("SEGUE_SIM_ACP", str(script))
    played = ProgramScript.load(acp.WORDS, tmp_path)
    assert played.list_faults(played.pick(1, "default", str)) == {"error"}
