"""Traces: in the store, and in LiteLLM's callbacks."""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

import pytest

from tests.features.litellm.place import HELLO, MODEL, Asking, litellm, provider

PANEL = f'[profiles.panel]\nkind = "fallback"\nmodels = ["{MODEL}", "composer-cli/gpt-5.5"]\n'
SCRIPT = (
    '[[on]]\nlaunch = 1\nstderr = "out of luck"\nexit_code = 3\n'
    '[[on]]\nsay = "secret answer"\nusage = { inputTokens = 10, outputTokens = 4 }\n'
)


@pytest.fixture
def panel(asking: Asking) -> Asking:
    asking.config(PANEL)
    asking.script(SCRIPT)
    return asking


def ask(**options: Any) -> Any:
    return litellm.completion(model="composite/profile/panel", messages=HELLO, **options)


def test_a_call_is_stored_as_one_tree_without_the_words(panel: Asking) -> None:
    ask()
    provider.close()
    root, failed, answered = panel.spans()
    assert root["parent"] is None
    assert failed["parent"] == answered["parent"] == root["id"]
    assert (failed["exit_code"], failed["stderr"], failed["failure"]) == (3, "out of luck", "crash")
    assert (answered["input_tokens"], answered["output_tokens"], answered["exit_code"]) == (10, 4, 0)
    assert answered["seconds"] > 0
    assert "hello" not in str(panel.spans())
    assert "secret answer" not in str(panel.spans())


def test_nothing_is_stored_when_nobody_wants_it(panel: Asking) -> None:
    panel.config(f"{PANEL}[provider]\nrecord = false\n")
    ask()
    provider.close()
    assert not (panel.state / "segue.db").exists()


@cache
def logger() -> Any:
    """Return what records what a LiteLLM callback can read; LiteLLM accepts one logger per class."""
    from litellm.integrations.custom_logger import CustomLogger

    class Seen(CustomLogger):
        def __init__(self) -> None:
            super().__init__()
            self.traces: list[Any] = []
            self.heard = threading.Event()

        def log_success_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
            self._keep(kwargs)

        def log_failure_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
            self._keep(kwargs)

        def _keep(self, kwargs: Any) -> None:
            if "segue_trace" in kwargs:
                self.traces.append(kwargs["segue_trace"])
                self.heard.set()

    return Seen()


@pytest.mark.parametrize("way", ["answer", "stream", "failure"])
def test_callbacks_read_the_trace(panel: Asking, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    seen = logger()
    seen.traces.clear()
    seen.heard.clear()
    monkeypatch.setattr("litellm.callbacks", [seen])
    if way == "failure":
        panel.script("[[on]]\nexit_code = 3\n")
        with pytest.raises(litellm.UnprocessableEntityError):
            ask()
    else:
        response = ask(stream=way == "stream")
        _ = list(response) if way == "stream" else None
    assert seen.heard.wait(120)
    root, *leaves = seen.traces[0]
    assert root["kind"] == "profile"
    assert [leaf["exit_code"] for leaf in leaves] == [3, 3 if way == "failure" else 0]
