"""Traces: in the store, in `segue logs`, as OpenTelemetry spans, and in LiteLLM's callbacks."""

from __future__ import annotations

import subprocess
import sys
import threading
from functools import cache
from typing import Any

import pytest
from opentelemetry import trace as otel_trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.parts.litellm.place import HELLO, MODEL, Asking, environment, litellm, provider

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


@pytest.mark.thorough
def test_logs_show_the_tree(panel: Asking) -> None:
    ask()
    provider.close()
    command = [sys.executable, "-m", "segue", "logs", panel.run_id()]
    done = subprocess.run(
        command, env=environment(panel.root), cwd=panel.root, capture_output=True, text=True, check=True
    )
    first, second, third = done.stdout.splitlines()
    assert "composite/profile/panel" in first
    assert f"› {MODEL} (attempt)" in second
    assert "crash: " in second
    assert "› composer-cli/gpt-5.5 (attempt)" in third
    assert "14 tokens" in third


@pytest.mark.thorough
def test_the_run_of_a_provider_is_nothing_to_resume(panel: Asking) -> None:
    ask()
    command = [sys.executable, "-m", "segue", "resume"]
    done = subprocess.run(
        command, env=environment(panel.root), cwd=panel.root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "There is no run" in done.stderr


def test_nothing_is_stored_when_nobody_wants_it(panel: Asking) -> None:
    panel.config(f"{PANEL}[provider]\nrecord = false\n")
    ask()
    provider.close()
    assert not (panel.state / "segue.db").exists()


@pytest.mark.thorough
def test_a_store_that_fails_does_not_fail_the_call(panel: Asking) -> None:
    panel.config(f'database_url = "{panel.root}/no/such/folder/x.db"\n{PANEL}')
    assert ask().choices[0].message.content == "secret answer"


@pytest.mark.thorough
def test_spans_stand_under_the_callers_with_the_names_of_the_conventions(panel: Asking) -> None:
    memory = InMemorySpanExporter()
    provider = otel_trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        provider = TracerProvider()
        otel_trace.set_tracer_provider(provider)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    with otel_trace.get_tracer("test").start_as_current_span("mine") as mine:
        ask()
    spans = {span.name: span for span in memory.get_finished_spans()}
    root = spans["invoke_agent composite/profile/panel"]
    failed, answered = spans[f"chat {MODEL}"], spans["chat composer-cli/gpt-5.5"]
    assert root.parent is not None
    assert root.parent.span_id == mine.get_span_context().span_id
    assert failed.parent is not None
    assert answered.parent is not None
    context = root.get_span_context()
    assert context is not None
    assert failed.parent.span_id == answered.parent.span_id == context.span_id
    assert answered.attributes is not None
    assert failed.attributes is not None
    assert answered.attributes["gen_ai.operation.name"] == "chat"
    assert answered.attributes["gen_ai.provider.name"] == "composer-cli"
    assert answered.attributes["gen_ai.request.model"] == "gpt-5.5"
    assert answered.attributes["gen_ai.usage.input_tokens"] == 10
    assert failed.attributes["error.type"] == "crash"
    assert failed.attributes["process.exit.code"] == 3
    assert not failed.status.is_ok


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
