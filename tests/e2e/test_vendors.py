"""How a failing service looks through each of the real programs: the cells of `segue help agents`.

`make vendors` runs all of them; `make e2e` leaves out what test_faults or another program shows as well.
"""

from __future__ import annotations

from typing import Any

import pytest
from docs.vendors import ENDINGS, OTHERWISE, PROGRAMS, shown_by

from tests.e2e.conftest import Real

_EXCEEDED = "You exceeded your current quota, please check your plan and billing details."
FAULTS: dict[str, dict[str, Any]] = {
    "rate": {"status": 429, "reply": "Rate limit reached for requests."},
    "quota": {"status": 429, "reply": {"message": _EXCEEDED, "type": "insufficient_quota"}},
    "credit": {"status": 402, "reply": "Insufficient credits. Add more credits to your account."},
    "plan": {"status": 403, "reply": "This model is not included in your plan."},
    "key": {"status": 401, "reply": "Incorrect API key provided."},
    "model": {"status": 404, "reply": "The model sim-large does not exist or you do not have access to it."},
    "refusal": {"finish": "refusal", "reply": "No."},
    "length": {"finish": "length", "reply": "and so on and"},
    "context": {
        "status": 400,
        "reply": {
            "message": "This model's maximum context length is 128000 tokens, but your messages have 140000.",
            "code": "context_length_exceeded",
        },
    },
    "size": {"status": 413, "reply": "Request exceeds the maximum size"},
    "down": {"status": 503, "reply": "The engine is currently overloaded, please try again later"},
    "overload": {"status": 503, "late": 3, "reply": "Overloaded"},
    "cut": {"reply": "an answer that is cut somewhere in the middle of it", "cut": 3},
    "silence": {"reply": "Too late.", "delay": 600},
}
IN_THE_WORDS_OF: dict[tuple[str, str], dict[str, Any]] = {
    ("quota", "claude"): {"status": 429, "reply": "You've hit your usage limit. Try again in 3 hours."},
    ("quota", "codex"): {
        "status": 429,
        "reply": {"message": "The usage limit has been reached", "type": "usage_limit_reached"},
    },
    ("quota", "gemini"): {"status": 429, "reply": _EXCEEDED},
    ("credit", "claude"): {"status": 400, "reply": "Your credit balance is too low to access the API."},
    ("credit", "codex"): {
        "status": 429,
        "reply": {"message": "You exceeded your current quota.", "code": "insufficient_quota"},
    },
    ("credit", "gemini"): {"status": 429, "reply": "Your prepayment credits are depleted."},
    ("plan", "claude"): {"status": 403, "reply": "Your plan does not include this model."},
    ("plan", "codex"): {"status": 429, "reply": {"message": "no", "type": "usage_not_included"}},
    ("context", "claude"): {"status": 400, "reply": "prompt is too long: 210000 tokens > 200000 maximum"},
    ("context", "codex"): {
        "status": 400,
        "late": 2,
        "reply": {"message": "Your input exceeds the context window.", "code": "context_length_exceeded"},
    },
    ("context", "gemini"): {
        "status": 400,
        "reply": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    },
    ("overload", "claude"): {"status": 529, "late": 3, "reply": "Overloaded"},
}
"""What a vendor's service says otherwise than the others."""
MODELS = {"codex": ":gpt-5.5", "gemini": ":gemini-2.5-pro"}
ALIKE = {"rate", "credit", "size", "overload", "silence"}
"""What is read in the same way for each of these programs."""
IN_FAULTS = {"key", "down", "cut"}
"""What test_faults.py shows as well."""
SHOWN_ELSEWHERE = {"claude": IN_FAULTS, "codex": ALIKE | IN_FAULTS, "gemini": ALIKE | IN_FAULTS}
"""The cells that `make e2e` leaves out; of other programs, all in which they end as the first ones do."""


def cells() -> list[Any]:
    """Return every program with every case."""
    found = []
    for program in PROGRAMS:
        elsewhere = SHOWN_ELSEWHERE.get(program, ENDINGS.keys())
        for case in ENDINGS:
            is_left_out = case in elsewhere and (case, program) not in OTHERWISE
            found.append(pytest.param(program, case, marks=pytest.mark.cells if is_left_out else ()))
    return found


@pytest.mark.parametrize(("real", "case"), cells(), indirect=["real"])
def test_a_failing_service_is_told_and_the_next_agent_works(real: Real, case: str) -> None:
    real.model.plays(IN_THE_WORDS_OF.get((case, real.name), FAULTS[case]))
    first = f"{real.name}{MODELS.get(real.name, '')}"
    idle = "20" if case == "silence" else "600"
    chain = ("--task", "1", "--agent", f"{first},scripted")
    real.place.segue("run", "plan.md", *chain, SEGUE_LIMITS__IDLE_TIMEOUT=idle)
    [switch] = real.events("fallback")
    expected = shown_by(real.name, case) or "no_change"
    assert (switch["agent"], switch["kind"]) == (first, expected), switch["reason"]
    assert switch["next"].startswith("scripted")


@pytest.mark.parametrize(
    "real",
    [pytest.param(name, marks=() if name in ("claude", "qwen") else pytest.mark.cells) for name in PROGRAMS],
    indirect=True,
)
def test_what_it_does_not_tell_is_said_by_the_doctor(real: Real) -> None:
    checks = real.place.json("doctor", code=None)["checks"]
    (found,) = [one["agent"] for one in checks if one["what"] == f"agent {real.name}"]
    said = " ".join(found["untold"])
    words = {"refusal": "refuses", "length": "answer is cut", "overload": "service fails"}
    for case, word in words.items():
        if not shown_by(real.name, case):
            assert word in said
    assert ("costs" in said) == (real.name != "claude")


@pytest.mark.parametrize(
    "real",
    ["claude", "codex", "gemini", "copilot", pytest.param("opencode", marks=pytest.mark.cells)],
    indirect=True,
)
def test_a_request_that_fails_once_does_not_fail_the_work(real: Real) -> None:
    """Qwen repeats nothing, because it would do so for half an hour: Segue does."""
    real.place.config((real.place.root / "segue.toml").read_text().replace("retry_grace = 1\n", ""))
    refused = {"status": 503, "reply": "Overloaded", "times": 1}
    real.model.plays(real.write("", "one.txt", "one"), refused, {"reply": "Did one."})
    real.place.segue("run", "plan.md", "--task", "1", "--agent", f"{real.name}{MODELS.get(real.name, '')}")
    assert [event["ok"] for event in real.events("agent.ended")] == [True]
    assert (real.place.repo / "one.txt").read_text() == "one"


@pytest.mark.parametrize("real", ["claude"], indirect=True)
def test_claude_does_not_tell_that_its_service_failed_late_in_an_answer(real: Real) -> None:
    real.model.plays({"status": 529, "late": 5, "reply": "Overloaded"})
    real.place.segue("run", "plan.md", "--task", "1", "--agent", "claude,scripted")
    assert [switch["kind"] for switch in real.events("fallback")] == ["no_change"]
