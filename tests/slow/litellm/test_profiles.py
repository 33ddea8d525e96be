"""Profiles: several models as one, agents and LiteLLM models alike."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from segue.config.feature_tables import settings_kind
from segue.config.load import LoadedSettings
from segue.domain.errors import UsageError
from segue.domain.options import read_options
from tests.fakes.model import Model, serve_model
from tests.features.litellm.place import HELLO, MODEL, Asking, catalogue, litellm


@pytest.fixture(scope="module")
def vendor() -> Iterator[Model]:
    """A model on loopback that LiteLLM calls like any other."""
    with serve_model() as model:
        yield model


def alias(vendor: Model, name: str = "sim") -> str:
    return (
        f'[[provider.models]]\nname = "{name}"\nmodel = "openai/sim-large"\n'
        f'params = {{ api_base = "{vendor.base_url}", api_key = "sk-sim" }}\n'
    )


def ask(profile: str, **options: Any) -> Any:
    return litellm.completion(model=f"composite/profile/{profile}", messages=HELLO, **options)


def said(response: Any) -> str:
    return str(response.choices[0].message.content)


def trace(response: Any) -> list[dict[str, Any]]:
    spans: list[dict[str, Any]] = response._hidden_params["segue"]["trace"]
    return spans


def test_fallback_goes_on_until_somebody_answers(asking: Asking, vendor: Model) -> None:
    vendor.plays({"reply": "from the vendor", "usage": {"input": 7, "output": 2}})
    asking.config(f'[profiles.safe]\nkind = "fallback"\nmodels = ["{MODEL}", "sim"]\n{alias(vendor)}')
    asking.script('[[on]]\nstderr = "broken"\nexit_code = 3\n')
    response = ask("safe", temperature=0.5)
    assert said(response) == "from the vendor"
    root, failed, answered = trace(response)
    assert (failed["ok"], failed["exit_code"], failed["stderr"]) == (False, 3, "broken")
    assert (answered["kind"], answered["ok"], answered["parent"]) == ("litellm", True, root["id"])
    assert answered["input_tokens"] == 7
    asked = vendor.asked()[-1]
    assert asked["temperature"] == 0.5


def test_fallback_without_an_answer_fails_as_the_last_one_did(asking: Asking) -> None:
    asking.config(f'[profiles.safe]\nkind = "fallback"\nmodels = ["{MODEL}", "composer-cli/gpt-5.5"]\n')
    asking.script('[[on]]\nlaunch = 1\nexit_code = 3\n[[on]]\nfaults = ["quota"]\n')
    with pytest.raises(litellm.RateLimitError):
        ask("safe")


def test_a_judge_chooses(asking: Asking, vendor: Model) -> None:
    vendor.plays(
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


def test_a_judge_that_babbles_does_not_spoil_the_answer(asking: Asking, vendor: Model) -> None:
    vendor.plays({"match": "Answer 1:", "reply": "Hard to say."}, {"match": "", "reply": "one"})
    asking.config(
        f'[profiles.panel]\nkind = "fan_out"\nmodels = ["sim", "{MODEL}"]\njudge = "sim"\n{alias(vendor)}'
    )
    asking.script('[[on]]\nsay = "two"\n')
    response = ask("panel")
    assert said(response) == "one"
    assert "the judge chose none" in trace(response)[0]["note"]


def test_a_fan_out_bears_the_failure_of_some(asking: Asking) -> None:
    asking.config(
        f'[profiles.panel]\nkind = "fan_out"\njudge = "{MODEL}"\n'
        f'models = ["{MODEL}", "composer-cli/gpt-5.5"]\n'
    )
    asking.script('[[on]]\nlaunch = 1\nexit_code = 3\n[[on]]\nsay = "alone"\n')
    assert said(ask("panel")) == "alone"


def test_profiles_in_profiles_make_one_tree_with_one_sum(asking: Asking) -> None:
    asking.config(
        f'[profiles.inner]\nkind = "single"\nmodel = "{MODEL}"\n[profiles.outer]\nkind = "fan_out"\n'
        f'models = ["composite/profile/inner", "composer-cli/default"]\njudge = "{MODEL}"\n'
    )
    asking.script('[[on]]\nsay = "x"\nusage = { inputTokens = 10, outputTokens = 1 }\n')
    response = ask("outer", stream=False)
    spans = trace(response)
    assert [span["depth"] for span in spans] == [0, 1, 2, 1]
    assert len({span["trace"] for span in spans}) == 1
    assert response.usage.total_tokens == 22


def single(model: str) -> dict[str, str]:
    return {"kind": "single", "model": model}


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "circle": ({"a": single("composite/profile/b"), "b": single("composite/profile/a")}, "circle: a → b → a"),
    "itself": ({"a": single("composite/profile/a")}, "circle: a → a"),
    "alias": ({"a": single("loop")}, "circle: a → a"),
    "unknown profile": ({"a": single("composite/profile/x")}, "'x', which does not exist"),
    "unknown model": ({"a": single("nonsense")}, "nonsense"),
    "unknown kind": ({"a": {"kind": "tournament"}}, "profiles.a"),
    "one candidate": ({"a": {"kind": "fan_out", "models": [MODEL], "judge": MODEL}}, r"profiles.a.models"),
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
