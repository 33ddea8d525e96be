"""Failures arrive in LiteLLM's own classes, and no router launches a paid agent twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.features.litellm.place import HELLO, MODEL, Asking, litellm

CASES = {
    "crash": ('say = ""\nstderr = "segmentation fault"\nexit_code = 3', "UnprocessableEntityError"),
    "no_result": ('say = ""\nfaults = ["no_result"]', "UnprocessableEntityError"),
    "truncated": ('say = ""\nfaults = ["truncated"]', "UnprocessableEntityError"),
    "empty": ('faults = ["empty"]', "UnprocessableEntityError"),
    "quota": ('faults = ["quota"]', "RateLimitError"),
    "auth": ('faults = ["bad_key"]', "AuthenticationError"),
}


def failing(**options: Any) -> Exception:
    """Return the exception of a failing call."""
    with pytest.raises(Exception) as caught:
        litellm.completion(model=MODEL, messages=HELLO, **options)
    return caught.value


@pytest.mark.parametrize("case", CASES)
def test_a_failure_has_the_class_that_routers_know(asking: Asking, case: str) -> None:
    entry, kind = CASES[case]
    asking.script(f"[[on]]\n{entry}\n")
    error = failing()
    assert type(error) is getattr(litellm, kind)
    assert 400 <= getattr(error, "status_code", 0) < 500
    wait = getattr(error, "headers", {}).get("retry-after", "")
    assert wait.isdecimal() == (case == "quota"), "a limit says when to ask again"
    assert asking.leftovers() == []


@pytest.mark.parametrize("case", ["crash", "quota"])
def test_a_router_does_not_launch_again(asking: Asking, case: str) -> None:
    entry, kind = CASES[case]
    asking.script(f"[[on]]\n{entry}\n")
    router = litellm.Router(model_list=[{"model_name": "mine", "litellm_params": {"model": MODEL}}])
    with pytest.raises(getattr(litellm, kind)):
        asyncio.run(router.acompletion(model="mine", messages=HELLO))
    assert len(asking.launches()) == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a coroutine of LiteLLM's
@pytest.mark.parametrize("case", ["crash"])
def test_a_router_falls_back_in_a_stream(asking: Asking, case: str) -> None:
    entry, _kind = CASES[case]
    asking.script(f'[[on]]\nlaunch = 1\n{entry}\n[[on]]\nsay = "second"\n')
    entries = [
        {"model_name": name, "litellm_params": {"model": f"composer-cli/{model}"}}
        for name, model in (("one", "composer-2.5"), ("two", "gpt-5.5"))
    ]
    router = litellm.Router(model_list=entries, fallbacks=[{"one": ["two"]}])

    async def read() -> str:
        stream = await router.acompletion(model="one", messages=HELLO, stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    assert asyncio.run(read()) == "second"
    assert len(asking.launches()) == 2


@pytest.mark.parametrize(("case", "way"), [("crash", "sync"), ("quota", "async")])
def test_a_stream_that_fails_has_the_class_of_its_failure(asking: Asking, case: str, way: str) -> None:
    entry, kind = CASES[case]
    asking.script(f"[[on]]\n{entry}\n")

    async def read() -> None:
        async for _chunk in await litellm.acompletion(model=MODEL, messages=HELLO, stream=True):
            pass

    def ask() -> None:
        if way == "async":
            asyncio.run(read())
        else:
            list(litellm.completion(model=MODEL, messages=HELLO, stream=True))

    with pytest.raises(getattr(litellm, kind)) as caught:
        ask()
    assert len(asking.launches()) == 1
    wait = getattr(caught.value, "headers", {}).get("retry-after", "")
    assert wait.isdecimal() == (case == "quota"), "a limit says when to ask again"


LIMITED = (
    '[[on]]\nlaunch = 1\nsay = ""\nexit_code = 1\nstderr = "Usage limit reached. It resets in 2 hours."\n'
)


def test_a_limit_whose_end_is_known_is_remembered_for_its_model(asking: Asking) -> None:
    asking.script(f'{LIMITED}[[on]]\nsay = "here"\n')
    first, second = failing(), failing()
    assert type(first) is type(second) is litellm.RateLimitError
    assert "was not asked again" in str(second)
    waits = [int(getattr(error, "headers", {})["retry-after"]) for error in (first, second)]
    assert 3600 < waits[1] <= waits[0] <= 7300
    assert len(asking.launches()) == 1, "no doomed agent is started"
    other = litellm.completion(model="composer-cli/gpt-5.5", messages=HELLO)
    assert other.choices[0].message.content == "here"


def test_calls_of_a_process_stay_within_the_budget(asking: Asking) -> None:
    asking.config("[limits]\nlaunches = 1\n")
    asking.script('[[on]]\nsay = "here"\n')
    litellm.completion(model=MODEL, messages=HELLO)
    error = failing()
    assert type(error) is litellm.RateLimitError
    assert "limits.launches" in str(error)
    assert getattr(error, "num_retries", None) == 0, "asking again is of no use"
    assert len(asking.launches()) == 1


def test_the_callers_time_limit_holds(asking: Asking) -> None:
    asking.config("[limits]\nkill_grace = 0.1\n")
    asking.script('[[on]]\nfaults = ["hang"]\n')
    error = failing(timeout=1.5)
    assert isinstance(error, litellm.Timeout)
    assert error.status_code == 408
    assert error.num_retries == 0


def test_a_missing_program_is_no_service(asking: Asking) -> None:
    asking.config('[agents.cursor]\nagent_cmd = "no-such-program"\n')
    error = failing()
    assert isinstance(error, litellm.ServiceUnavailableError)
    assert "no-such-program" in str(error)
    # Once it is there, it is used.
    asking.config("")
    assert litellm.completion(model=MODEL, messages=HELLO).choices[0].message.content


def test_an_unknown_model_is_the_callers_mistake(asking: Asking) -> None:
    with pytest.raises(litellm.NotFoundError, match="does not know the model"):
        litellm.completion(model="composer-cli/nope", messages=HELLO)


@pytest.mark.parametrize("model", ["--force", "x\n--force"])
def test_a_model_is_no_way_to_pass_flags(asking: Asking, model: str) -> None:
    with pytest.raises(litellm.BadRequestError, match="not the name of a model"):
        litellm.completion(model=f"composer-cli/{model}", messages=HELLO)
    assert asking.launches() == []


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
CALLS = [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}
REFUSED: dict[str, tuple[list[dict[str, Any]], dict[str, Any], str]] = {
    "image": (
        [{"role": "user", "content": [{"type": "text", "text": "see"}, IMAGE]}],
        {},
        r"\[1\].*image_url",
    ),
    "tool message": ([*HELLO, {"role": "tool", "content": "1", "tool_call_id": "1"}], {}, "'tool'"),
    "tool calls": ([*HELLO, {"role": "assistant", "content": None, "tool_calls": CALLS}], {}, "tool_calls"),
    "tools": (HELLO, {"tools": [TOOL]}, "tools"),
    "functions": (HELLO, {"functions": [{"name": "f", "parameters": {}}]}, "functions"),
    "json": (HELLO, {"response_format": {"type": "json_object"}}, "response_format"),
    "n": (HELLO, {"n": 2}, "n must be 1"),
    "nothing": ([], {}, "empty"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_an_agent_cannot_take_is_refused_and_not_dropped(asking: Asking, case: str) -> None:
    messages, options, words = REFUSED[case]
    with pytest.raises(litellm.BadRequestError, match=words) as caught:
        litellm.completion(model=MODEL, messages=messages, **options)
    assert caught.value.status_code == 400
    assert asking.launches() == []
