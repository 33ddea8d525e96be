"""The real command lines, found, named and tried out in a throw-away repository."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import KEY, Real


def test_it_is_found_in_its_version_and_logged_in(real: Real) -> None:
    listed = {agent["name"]: agent for agent in real.place.json("agent", "list")}
    found = listed[real.name]
    assert found["ready"], found["problems"]
    assert found["version"][0].isdigit()
    assert real.name in found["program"]
    logins = {
        "claude": "ANTHROPIC_API_KEY",
        "codex": "agents.codex.config",
        "gemini": "GEMINI_API_KEY",
        "opencode": "not known",
    }
    assert found["login"] == logins[real.name]


def test_a_prompt_is_tried_out(real: Real) -> None:
    kept = real.place.root / "trial"
    call = real.shell(f"printf hello > {kept}/repo/hello.txt")
    real.model.plays({"times": 1, "tool_calls": [call]}, {"reply": "Wrote it."})
    models = {"codex": "gpt-5.5", "gemini": "gemini-2.5-pro"}
    model = ["--model", models[real.name]] if real.name in models else []
    data = real.place.json("agent", "try", real.name, "Write hello.txt", "--keep", str(kept), *model)
    assert (data["ok"], data["text"]) == (True, "Wrote it.")
    assert "+hello" in data["diff"]
    assert data["usage"]["output_tokens"] > 0
    assert (kept / "stdout").read_text().startswith("{")


@pytest.mark.parametrize("real", ["claude", "codex"], indirect=True)
def test_it_behaves_as_expected_and_the_report_says_so(real: Real) -> None:
    real.model.plays(
        {"match": "greeting", "times": 1, "tool_calls": [real.shell("echo hello from segue > greeting.txt")]},
        {"reply": "I wrote it; the number is 7411."},
    )
    model = ["--model", "gpt-5.5"] if real.name == "codex" else []
    report = real.place.root / "report.md"
    data = real.place.json("try", real.name, "--report", str(report), *model)
    assert data["ok"], data
    seen = {check["name"]: check["state"] for check in data["checks"]}
    assert seen["works"] == seen["continues its session"] == seen["reports usage"] == "yes"
    assert "7411" in str(real.model.asked()[-1]), "the second launch has the first one's answer"
    text = report.read_text()
    assert data["version"] in text
    assert KEY not in text
    assert str(real.place.root) not in text
