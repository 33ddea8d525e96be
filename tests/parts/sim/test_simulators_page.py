"""The page about the simulators names every key, fault and control, and what it shows can be played."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from docs.scripts import SCRIPTS

from segue.parts.notify.sim.chats import SlackScript, ntfy_app, slack_app
from segue.parts.searchers.sim import SearchScript, search_app
from segue.parts.sim.acp import script as acp
from segue.parts.sim.cloud import script as cloud
from segue.parts.sim.cloud.app import cloud_app
from segue.parts.sim.cursor import script as cursor
from segue.parts.sim.github import script as hub
from segue.parts.sim.github.app import github_app
from segue.parts.trackers.gitlab_sim import script as lab
from segue.parts.trackers.gitlab_sim.app import gitlab_app
from segue.sim.llm import script as llm
from segue.sim.llm.app import llm_app
from segue.sim.script import ProgramScript, ScriptWords, check_script

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "reference" / "simulators.md").read_text("utf-8")
SPANS = set(re.findall(r"`([^`\n]+)`", PAGE))


def test_every_control_is_explained() -> None:
    others = (slack_app(), ntfy_app(), search_app())
    for app in (cloud_app(), llm_app(), github_app(), gitlab_app(), *others):
        paths = {path for route in app.routes if (path := getattr(route, "path", "")).startswith("/_sim/")}
        explained = {span.partition(" ")[2].replace("{id}", "{agent}") for span in SPANS}
        assert paths - explained <= {"/_sim/artifacts/{token}"}


@pytest.mark.parametrize(
    ("info", "model"),
    [
        ("cloud", cloud.CloudScript),
        ("llm", llm.LlmScript),
        ("github", hub.GithubScript),
        ("gitlab", lab.GitlabScript),
        ("slack", SlackScript),
        ("search", SearchScript),
    ],
)
def test_the_scripts_can_be_played(info: str, model: type[Any]) -> None:
    [text] = re.findall(rf"^```toml {info}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    check_script(tomllib.loads(text), model)


def test_every_table_of_words_is_shown() -> None:
    shown = PAGE + (ROOT / "docs/reference/scripted-agent.md").read_text("utf-8")
    assert [name for name in SCRIPTS if f"<!-- script: {name} -->" not in shown] == []


@pytest.mark.parametrize(
    ("info", "variable", "words", "mode", "faults"),
    [
        ("acp", "SEGUE_SIM_ACP", acp.WORDS, "default", {"error"}),
        ("cursor", "SEGUE_SIM_AGENT", cursor.WORDS, "agent", {"quota"}),
    ],
)
def test_the_scripts_of_programs_can_be_played(
    info: str,
    variable: str,
    words: ScriptWords,
    mode: str,
    faults: set[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    [text] = re.findall(rf"^```toml {info}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    script = tmp_path / "script.toml"
    script.write_text(text)
    monkeypatch.setenv(variable, str(script))
    played = ProgramScript.load(words, tmp_path)
    assert played.list_faults(played.pick(1, mode, str)) == faults
