"""The real command lines, found, named and tried out in a throw-away repository."""

from __future__ import annotations

from tests.e2e.conftest import Real


def test_it_is_found_in_its_version_and_logged_in(real: Real) -> None:
    listed = {agent["name"]: agent for agent in real.place.json("agent", "list")}
    found = listed[real.name]
    assert found["ready"], found["problems"]
    assert found["version"][0].isdigit()
    assert real.name in found["program"]
    assert found["login"] == {"claude": "ANTHROPIC_API_KEY", "codex": "agents.codex.config"}[real.name]


def test_a_prompt_is_tried_out(real: Real) -> None:
    kept = real.place.root / "trial"
    call = real.shell(f"printf hello > {kept}/repo/hello.txt")
    real.model.plays({"times": 1, "tool_calls": [call]}, {"reply": "Wrote it."})
    model = ["--model", "gpt-5.5"] if real.name == "codex" else []
    data = real.place.json("agent", "try", real.name, "Write hello.txt", "--keep", str(kept), *model)
    assert (data["ok"], data["text"]) == (True, "Wrote it.")
    assert "+hello" in data["diff"]
    assert data["usage"]["output_tokens"] > 0
    assert (kept / "stdout").read_text().startswith("{")


def test_a_refused_key_is_named(real: Real) -> None:
    real.model.plays({"status": 401, "reply": "no such key"})
    temporary = str(real.place.root)
    data = real.place.json("agent", "try", real.name, "Write hello.txt", code=4, TMPDIR=temporary)
    assert data["failure"]["kind"] == "auth"
    assert data["kept"]
