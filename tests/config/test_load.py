"""Settings from files and the environment: what is accepted, and what is said about mistakes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from segue.config.feature_tables import all_settings
from segue.config.load import LoadedSettings, load, show
from segue.config.settings import BuildPhaseName, TaskKindName
from segue.config.tree import environment_of
from segue.domain.errors import UsageError
from segue.domain.options import option_fields, options_schema
from segue.domain.plan import BuildPhase
from segue.domain.task import TaskKind


def known(table: str) -> Iterator[str]:
    yield from {"agents": ("claude", "cursor", "cursor-cloud"), "reviewers": ("stet",)}.get(table, ())


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    return tmp_path / "segue.toml"


def read(file: Path, text: str = "", **environ: str) -> LoadedSettings:
    file.write_text(text)
    return load(file.parent, environ={"SEGUE_TRUST": "1", **environ}, known=known)


def test_secrets_of_the_environment_are_not_stored_with_a_run(file: Path) -> None:
    tables: list[tuple[type, str]] = [(all_settings(), "")]
    secrets: dict[str, str] = {}
    while tables:
        kind, prefix = tables.pop()
        for field in option_fields(kind):
            if field.is_table and isinstance(field.type, type) and field.type.__name__ != "dict":
                tables.append((field.type, f"{prefix}{field.name.upper()}__"))
            elif "Secret" in str(field.type):
                secrets[f"SEGUE_{prefix}{field.name.upper()}"] = "https://hidden"
    secrets["SEGUE_NOTIFY__NTFY__TOPIC"] = "hidden"  # a topic is no address
    assert len(secrets) >= 4
    loaded = read(file, **secrets, SEGUE_AGENT="claude")
    assert loaded.overrides == {"agent": "claude"}


def test_kinds_are_given_by_key_or_pattern(file: Path) -> None:
    kinds = read(file, '[kinds]\n"2.1" = "docs"\nT012 = "human"\n"T0*" = "verify-only"\n').settings.kinds
    assert list(kinds.items()) == [("2.1", "docs"), ("T012", "human"), ("T0*", "verify-only")]
    assert set(get_args(TaskKindName)) == set(TaskKind)


def test_commands_are_lists_or_text(file: Path) -> None:
    settings = read(
        file, 'checks = ["pytest -q", ["ruff", "check", "."]]\nsmoke.schema = "a \'b c\'"\n'
    ).settings
    assert settings.checks == (("pytest", "-q"), ("ruff", "check", "."))
    assert list(settings.smoke.values()) == [(("a", "b c"),)]
    assert read(file, "", SEGUE_CHECKS="pytest -q").settings.checks == (("pytest", "-q"),)


def test_text_in_the_environment_gets_the_type_of_its_setting(file: Path) -> None:
    loaded = read(
        file,
        SEGUE_LIMITS__ATTEMPTS="3",
        SEGUE_WORKTREE="true",
        SEGUE_LIMITS__RUN_TIMEOUT="1.5",
        SEGUE_ROLES__PLAN='["claude", "cursor"]',
        SEGUE_DATABASE_URL="postgresql://secret",
    )
    settings = loaded.settings
    assert (settings.limits.attempts, settings.worktree, settings.limits.run_timeout) == (3, True, 1.5)
    assert settings.roles.plan == "claude,cursor"
    assert settings.database_url is not None
    assert settings.database_url.reveal() == "postgresql://secret"
    assert "postgresql" not in json.dumps([show(value) for _, value, _ in loaded.rows()]) + repr(settings)
    assert loaded.where("limits.attempts") == "SEGUE_LIMITS__ATTEMPTS"
    assert loaded.overrides == {
        "limits": {"attempts": "3", "run_timeout": "1.5"},
        "worktree": "true",
        "roles": {"plan": ["claude", "cursor"]},
    }


def test_a_variable_reaches_names_with_dashes(file: Path) -> None:
    loaded = read(
        file,
        '[acp.my-own]\nargv = ["x"]\n',
        SEGUE_AGENTS__CURSOR_CLOUD__BASE_URL="http://here",
        SEGUE_AGENTS__MY_OWN__MODEL="m",
    )
    assert loaded.settings.agents == {"cursor-cloud": {"base_url": "http://here"}, "my-own": {"model": "m"}}
    assert loaded.where("agents.cursor-cloud.base_url") == "SEGUE_AGENTS__CURSOR_CLOUD__BASE_URL"
    assert environment_of({"agents": {"cursor-cloud": {"x": True}}}) == {
        "SEGUE_AGENTS__CURSOR_CLOUD__X": "true"
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[limits]\nattempts = 0\n", "limits.attempts: expected a whole number of at least 1, got 0 (from {})"),  # noqa: E501
        ("[limits]\nattempts = 1.5\n", "limits.attempts: expected a whole number of at least 1, got 1.5 (from {})"),  # noqa: E501
        ("[limits]\natempts = 1\n", "limits.atempts: is not an option; did you mean limits.attempts? (from {})"),  # noqa: E501
        ("attempts = 1\n", "attempts: is not an option; did you mean limits.attempts? (from {})"),
        ("limits = 3\n", "limits: expected a table, got 3 (from {})"),
        ('commit = "tsk"\n', 'commit: expected one of "never", "phase", "task", got "tsk" (from {})'),
        ('worktree = "maybe"\n', 'worktree: expected true or false, got "maybe" (from {})'),
        ("checks = [[]]\n", "checks: the first word names the program and cannot be empty (from {})"),
        ("database_url = 5\n", "database_url: expected text (from {})"),
        ('[kinds]\nT1 = "doc"\n', 'kinds.T1: expected one of "build", "docs", "human", "test-first", "verify-only"'),  # noqa: E501
        ('[smoke]\nschma = ["a"]\n', 'smoke.schma: expected one of "backend", '),
        ('[judge]\nbase_url = "x"\n', "judge.base_url: expected an address that begins with https:// or http://"),
        ("[flows.mine]\nphases = []\n", "flows.mine.phases: expected a list with at least 1 element, got []"),
        ("[agents.cladue]\nx = 1\n", "agents.cladue: there is no agent of this name; did you mean agents.claude? ("),  # noqa: E501
        ("[reviewers.stat]\nx = 1\n", "reviewers.stat: there is no reviewer of this name; did you mean"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_place(file: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(file, text)
    assert said.format(file) in caught.value.message


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("SEGUE_LIMIT__ATTEMPTS", "SEGUE_LIMIT__ATTEMPTS: there is no such setting. Did you mean SEGUE_"),
        ("SEGUE_LIMITS__ATEMPTS", "Did you mean SEGUE_LIMITS__ATTEMPTS?"),
        ("SEGUE_AGENTS__CURSOR_CLUD__X", "agents.cursor_clud: there is no agent of this name; did you mean agents."),  # noqa: E501
        ("SEGUE_AGENTS__CURSOR_CLUD__X", "(from SEGUE_AGENTS__CURSOR_CLUD__X)"),
    ],
)  # fmt: skip
def test_an_unknown_variable_is_refused_by_its_full_name(file: Path, name: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(file, "", **{name: "3"})
    assert said in caught.value.message


def test_the_schema_describes_every_setting() -> None:
    schema = options_schema(all_settings())
    definitions = schema["$defs"]
    assert definitions["LimitSettings"]["properties"]["attempts"]["minimum"] == 1
    assert schema["properties"]["checks"]["description"].startswith("Commands")
    assert definitions["FlowSettings"]["required"] == ["phases"]


def test_settings_need_no_pydantic_and_no_event_loop() -> None:
    code = "import segue.config.load, sys; print([m for m in ('pydantic', 'asyncio', 'difflib') if m in sys.modules])"  # noqa: E501
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_build_phase_may_have_checks() -> None:
    assert set(get_args(BuildPhaseName)) == set(BuildPhase)


def test_names_of_the_documents_are_read_and_named(file: Path) -> None:
    loaded = read(file, 'phase_timeout_sec = 7\nsandbox = "enabled"\n', SEGUE_PLAN_PATH="plan.md")
    assert loaded.settings.limits.phase_timeout == 7
    assert loaded.settings.agents["cursor"] == {"sandbox": "enabled"}
    assert loaded.old_names == (
        f"{file}: sandbox is now agents.cursor.sandbox.",
        f"{file}: phase_timeout_sec is now limits.phase_timeout.",
        "SEGUE_PLAN_PATH is now SEGUE_SOURCE.",
    )
    assert read(file, "[sandbox]\nstrength = 'strict'\n").old_names == ()
