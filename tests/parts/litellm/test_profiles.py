"""Profiles: several models as one, agents and LiteLLM models alike."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.config.load import LoadedSettings
from segue.config.part_tables import settings_kind
from segue.domain.errors import UsageError
from segue.domain.options import read_options
from segue.sim.llm.app import llm_app
from segue.system.http.server import start_server
from tests import loopback
from tests.parts.litellm.place import HELLO, MODEL, Asking, catalogue, litellm


@pytest.fixture(scope="module")
def vendor() -> Iterator[str]:
    """A model on loopback that LiteLLM calls like any other."""
    url, stop = start_server(llm_app())
    yield url
    stop()


def plays(vendor: str, *entries: dict[str, Any]) -> None:
    assert loopback.post(f"{vendor}/_sim/script", json=list(entries)).status_code == 200


def alias(vendor: str, name: str = "sim") -> str:
    return (
        f'[[provider.models]]\nname = "{name}"\nmodel = "openai/sim-large"\n'
        f'params = {{ api_base = "{vendor}/v1", api_key = "sk-sim" }}\n'
    )


def ask(profile: str, **options: Any) -> Any:
    return litellm.completion(model=f"composite/profile/{profile}", messages=HELLO, **options)


def said(response: Any) -> str:
    return str(response.choices[0].message.content)


def trace(response: Any) -> list[dict[str, Any]]:
    spans: list[dict[str, Any]] = response._hidden_params["segue"]["trace"]
    return spans


def test_single(asking: Asking) -> None:
    asking.config(f'[profiles.mine]\nkind = "single"\nmodel = "{MODEL}"\n')
    asking.script('[[on]]\nsay = "hi"\n')
    response = ask("mine")
    assert said(response) == "hi"
    root, leaf = trace(response)
    assert (root["kind"], leaf["kind"], leaf["parent"]) == ("profile", "cli", root["id"])


@pytest.mark.thorough
def test_fallback_goes_on_until_somebody_answers(asking: Asking, vendor: str) -> None:
    plays(vendor, {"reply": "from the vendor", "usage": {"input": 7, "output": 2}})
    asking.config(f'[profiles.safe]\nkind = "fallback"\nmodels = ["{MODEL}", "sim"]\n{alias(vendor)}')
    asking.script('[[on]]\nstderr = "broken"\nexit_code = 3\n')
    response = ask("safe", temperature=0.5)
    assert said(response) == "from the vendor"
    root, failed, answered = trace(response)
    assert (failed["ok"], failed["exit_code"], failed["stderr"]) == (False, 3, "broken")
    assert (answered["kind"], answered["ok"], answered["parent"]) == ("litellm", True, root["id"])
    assert answered["input_tokens"] == 7
    asked = loopback.get(f"{vendor}/_sim/log").json()["requests"][-1]["body"]
    assert asked["temperature"] == 0.5


@pytest.mark.thorough
def test_fallback_without_an_answer_fails_as_the_last_one_did(asking: Asking) -> None:
    asking.config(f'[profiles.safe]\nkind = "fallback"\nmodels = ["{MODEL}", "composer-cli/gpt-5.5"]\n')
    asking.script('[[on]]\nlaunch = 1\nexit_code = 3\n[[on]]\nfaults = ["quota"]\n')
    with pytest.raises(litellm.RateLimitError):
        ask("safe")


def test_the_majority_of_a_fan_out_wins(asking: Asking, vendor: str) -> None:
    plays(vendor, {"reply": "forty-two"})
    asking.config(
        f'[profiles.panel]\nkind = "fan_out"\nmodels = ["sim", "{MODEL}", "composer-cli/gpt-5.5"]\n'
        f"{alias(vendor)}"
    )
    asking.script('[[on]]\nlaunch = 1\nsay = "41"\n[[on]]\nsay = " Forty-Two\\n"\n')
    response = ask("panel")
    assert said(response) == "forty-two"
    root, *candidates = trace(response)
    assert root["note"] == "2 of 3 answers agree"
    assert [span["part"] for span in candidates] == ["candidate"] * 3


@pytest.mark.thorough
def test_a_judge_chooses(asking: Asking, vendor: str) -> None:
    plays(
        vendor,
        {"match": "(?s)Answer 1:.*first.*Answer 2:.*second", "reply": "2"},
        {"match": "", "reply": "The first answer"},
    )
    asking.config(
        f'[profiles.panel]\nkind = "fan_out"\nmodels = ["sim", "{MODEL}"]\njudge = "sim"\n{alias(vendor)}'
    )
    asking.script('[[on]]\nsay = "The second answer"\n')
    response = ask("panel")
    assert said(response) == "The second answer"
    assert [span["part"] for span in trace(response)] == ["", "candidate", "candidate", "judge"]


@pytest.mark.thorough
def test_a_judge_that_babbles_does_not_spoil_the_answer(asking: Asking, vendor: str) -> None:
    plays(vendor, {"match": "Answer 1:", "reply": "Hard to say."}, {"match": "", "reply": "one"})
    asking.config(
        f'[profiles.panel]\nkind = "fan_out"\nmodels = ["sim", "{MODEL}"]\njudge = "sim"\n{alias(vendor)}'
    )
    asking.script('[[on]]\nsay = "two"\n')
    response = ask("panel")
    assert said(response) == "one"
    assert "the judge chose none" in trace(response)[0]["note"]


@pytest.mark.thorough
def test_a_fan_out_bears_the_failure_of_some(asking: Asking) -> None:
    asking.config(f'[profiles.panel]\nkind = "fan_out"\nmodels = ["{MODEL}", "composer-cli/gpt-5.5"]\n')
    asking.script('[[on]]\nlaunch = 1\nexit_code = 3\n[[on]]\nsay = "alone"\n')
    assert said(ask("panel")) == "alone"


def test_draft_critique_revise(asking: Asking, vendor: str) -> None:
    plays(
        vendor,
        {"match": "Criticise your last answer", "reply": "Too short."},
        {"match": "(?s)criticised.*Too short\\.", "reply": "A longer answer"},
    )
    asking.config(
        f'[profiles.careful]\nkind = "revise"\ndraft = "{MODEL}"\ncritique = "sim"\nrevise = "sim"\n'
        f"{alias(vendor)}"
    )
    asking.script('[[on]]\nsay = "Draft"\n')
    response = ask("careful")
    assert said(response) == "A longer answer"
    assert [span["part"] for span in trace(response)] == ["", "draft", "critique", "revision"]


@pytest.mark.thorough
def test_a_content_critic_saves_the_revision(asking: Asking) -> None:
    asking.config(
        f'[profiles.careful]\nkind = "revise"\ndraft = "{MODEL}"\ncritique = "{MODEL}"\nrounds = 3\n'
    )
    asking.script('[[on]]\ncontains = "Criticise"\nsay = "NONE"\n[[on]]\nsay = "Perfect"\n')
    assert said(ask("careful")) == "Perfect"
    assert len(asking.launches()) == 2


@pytest.mark.thorough
def test_profiles_in_profiles_make_one_tree_with_one_sum(asking: Asking) -> None:
    asking.config(
        f'[profiles.inner]\nkind = "single"\nmodel = "{MODEL}"\n[profiles.outer]\nkind = "fan_out"\n'
        'models = ["composite/profile/inner", "composer-cli/default"]\n'
    )
    asking.script('[[on]]\nsay = "x"\nusage = { inputTokens = 10, outputTokens = 1 }\n')
    response = ask("outer", stream=False)
    spans = trace(response)
    assert [span["depth"] for span in spans] == [0, 1, 2, 1]
    assert len({span["trace"] for span in spans}) == 1
    assert response.usage.total_tokens == 22


def test_a_profile_streams_its_answer(asking: Asking) -> None:
    asking.config(f'[profiles.mine]\nkind = "single"\nmodel = "{MODEL}"\n')
    asking.script('[[on]]\nsay = "hi"\n')
    assert "".join(chunk.choices[0].delta.content or "" for chunk in ask("mine", stream=True)) == "hi"


def test_a_profile_that_does_not_exist_is_named(asking: Asking) -> None:
    asking.config(f'[profiles.mine]\nkind = "single"\nmodel = "{MODEL}"\n')
    with pytest.raises(litellm.BadRequestError, match="composite/profile/mine"):
        ask("yours")
    with pytest.raises(litellm.BadRequestError, match="no profile"):
        litellm.completion(model="composite/mine", messages=HELLO)


def single(model: str) -> dict[str, str]:
    return {"kind": "single", "model": model}


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "circle": ({"a": single("composite/profile/b"), "b": single("composite/profile/a")}, "circle: a → b → a"),
    "itself": ({"a": single("composite/profile/a")}, "circle: a → a"),
    "alias": ({"a": single("loop")}, "circle: a → a"),
    "unknown profile": ({"a": single("composite/profile/x")}, "'x', which does not exist"),
    "unknown model": ({"a": single("nonsense")}, "nonsense"),
    "unknown kind": ({"a": {"kind": "tournament"}}, "profiles.a"),
    "one candidate": ({"a": {"kind": "fan_out", "models": [MODEL]}}, r"profiles.a.models"),
    "unknown option": ({"a": {**single(MODEL), "x": 1}}, r"profiles.a.x"),
    "too deep": (
        {name: single(f"composite/profile/{chr(ord(name) + 1)}") for name in "abcd"} | {"e": single(MODEL)},
        "deeper than 4",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_profiles_are_refused_when_they_are_read(case: str) -> None:
    profiles, words = WRONG[case]
    models = [{"name": "loop", "model": "composite/profile/a"}] if case == "alias" else []
    tables = {"profiles": profiles, "provider": {"models": models}}
    settings = read_options(settings_kind(tables), tables)
    with pytest.raises(UsageError, match=words):
        catalogue.Catalogue.read(LoadedSettings(settings))


NAMES = ("a", "b", "c", "d")


@given(st.dictionaries(st.sampled_from(NAMES), st.lists(st.sampled_from(NAMES), min_size=1, max_size=3)))
def test_what_is_accepted_ends(graph: dict[str, list[str]]) -> None:
    """Following an accepted profile ends within the depth; a refused one has a reason."""
    tables = {
        name: {
            "kind": "fallback",
            "models": [f"composite/profile/{i}" if i in graph else MODEL for i in inner],
        }
        for name, inner in graph.items()
    }

    def height(name: str, above: tuple[str, ...]) -> int:
        if name in above:
            return 100
        return 1 + max((height(i, (*above, name)) for i in graph[name] if i in graph), default=0)

    fits = all(height(name, ()) <= 3 for name in graph)
    try:
        catalogue.read_profiles(tables, depth=3)
    except UsageError:
        assert not fits
    else:
        assert fits
