"""The model simulator answers as OpenAI, Anthropic and Google do, by its script."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from segue.domain.proof import CheckResult
from segue.domain.task import Task
from segue.domain.verdict import Criterion, Evidence
from segue.prompts.judge import judge_again_prompt, judge_prompt
from segue.sim.llm.app import llm_app
from segue.system.http.server import start_server
from tests import loopback

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
GEMINI = "/v1beta/models/m:generateContent"
APIS = [CHAT, RESPONSES, MESSAGES, GEMINI]


@pytest.fixture
def http() -> Iterator[httpx2.Client]:
    url, stop = start_server(llm_app())
    headers = {"Authorization": "Bearer anything"}
    with loopback.client(base_url=url, headers=headers, timeout=300) as client:
        yield client
    stop()


def plays(http: httpx2.Client, *entries: dict[str, Any]) -> None:
    assert http.post("/_sim/script", json=list(entries)).status_code == 200


def body(path: str, text: str, **more: Any) -> dict[str, Any]:
    if path == RESPONSES:
        return {"model": "m", "input": text, **more}
    if path == GEMINI:
        return {"contents": [{"role": "user", "parts": [{"text": text}]}]}
    return {"model": "m", "messages": [{"role": "user", "content": text}], "max_tokens": 9, **more}


def said(path: str, answer: dict[str, Any]) -> str:
    """The text of an answer that came whole."""
    if path == CHAT:
        text: str = answer["choices"][0]["message"]["content"]
        return text
    if path == GEMINI:
        return "".join(part["text"] for part in answer["candidates"][0]["content"]["parts"])
    blocks = answer["output"][0]["content"] if path == RESPONSES else answer["content"]
    return "".join(block["text"] for block in blocks)


def streaming(path: str) -> str:
    """Where a stream is asked for."""
    return path.replace(":generateContent", ":streamGenerateContent?alt=sse")


def stream(http: httpx2.Client, path: str, **more: Any) -> list[dict[str, Any]]:
    answer = http.post(streaming(path), json=body(path, "hello there, whoever you are", stream=True, **more))
    assert answer.headers["content-type"] == "text/event-stream"
    found = [line.removeprefix("data: ") for line in answer.text.split("\n") if line.startswith("data: ")]
    return [json.loads(data) for data in found if data != "[DONE]"]


@pytest.mark.parametrize("path", APIS)
def test_the_default_is_an_echo(http: httpx2.Client, path: str) -> None:
    answer = http.post(path, json=body(path, "hello")).json()
    assert said(path, answer) == "hello"
    usage = answer.get("usage") or answer["usageMetadata"]
    read, written = (
        {"prompt_tokens", "input_tokens", "promptTokenCount"},
        {"completion_tokens", "output_tokens", "candidatesTokenCount"},
    )
    assert all(usage[(names & usage.keys()).pop()] > 0 for names in (read, written))


@pytest.mark.parametrize("path", APIS)
def test_the_first_entry_that_fits_and_is_not_used_up(http: httpx2.Client, path: str) -> None:
    plays(
        http, {"match": "^h", "reply": "one", "times": 1}, {"match": "h", "reply": {"n": 2}}, {"reply": "x"}
    )
    answers = [said(path, http.post(path, json=body(path, text)).json()) for text in ("hi", "hi", "no")]
    assert answers == ["one", '{"n": 2}', "x"]


def test_entries_for_one_api_or_one_model(http: httpx2.Client) -> None:
    plays(http, {"api": "messages", "reply": "a"}, {"model": "^big", "reply": "b"})
    assert said(MESSAGES, http.post(MESSAGES, json=body(MESSAGES, "x")).json()) == "a"
    assert said(CHAT, http.post(CHAT, json=body(CHAT, "x", model="big-1")).json()) == "b"
    assert said(CHAT, http.post(CHAT, json=body(CHAT, "x")).json()) == "x"


@pytest.mark.parametrize("path", APIS)
def test_a_key_is_needed_and_may_be_any(http: httpx2.Client, path: str) -> None:
    with loopback.client(base_url=http.base_url) as client:
        assert client.post(path, json=body(path, "x")).status_code == 401
        for header in ("x-api-key", "x-goog-api-key"):
            assert client.post(path, json=body(path, "x"), headers={header: "k"}).status_code == 200
        assert client.get("/v1/models").status_code == 401
    assert "anything" not in http.get("/_sim/log").text


def test_chat_in_pieces(http: httpx2.Client) -> None:
    chunks = stream(http, CHAT, stream_options={"include_usage": True})
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks[:-1]]
    assert deltas[0]["role"] == "assistant"
    assert "".join(delta.get("content", "") for delta in deltas) == "hello there, whoever you are"
    assert chunks[-2]["choices"][0]["finish_reason"] == "stop"
    assert chunks[-1]["usage"]["total_tokens"] > 0
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert all("usage" not in chunk for chunk in stream(http, CHAT))


def test_responses_in_pieces(http: httpx2.Client) -> None:
    events = stream(http, RESPONSES)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert (events[0]["type"], events[-1]["type"]) == ("response.created", "response.completed")
    deltas = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
    assert "".join(deltas) == said(RESPONSES, events[-1]["response"]) == "hello there, whoever you are"
    assert events[0]["response"]["id"] == events[-1]["response"]["id"]


def test_messages_in_pieces(http: httpx2.Client) -> None:
    events = stream(http, MESSAGES)
    deltas = [e["delta"]["text"] for e in events if e["type"] == "content_block_delta"]
    assert "".join(deltas) == "hello there, whoever you are"
    kinds = [e["type"] for e in events if e["type"] != "content_block_delta"]
    assert kinds == [
        "message_start", "content_block_start", "content_block_stop", "message_delta", "message_stop",
    ]  # fmt: skip
    assert events[-2]["delta"]["stop_reason"] == "end_turn"
    assert events[-2]["usage"]["output_tokens"] > 0


def test_gemini_in_pieces(http: httpx2.Client) -> None:
    documents = stream(http, GEMINI)
    candidates = [document["candidates"][0] for document in documents]
    assert "".join(said(GEMINI, document) for document in documents) == "hello there, whoever you are"
    assert [candidate.get("finishReason") for candidate in candidates] == [None, None, "STOP"]
    assert len({document["responseId"] for document in documents}) == 1


CALL = {"name": "read", "arguments": {"path": "a.py", "lines": [1, 2]}}


def test_tool_calls_in_every_api(http: httpx2.Client) -> None:
    plays(http, {"tool_calls": [CALL]})
    choice = http.post(CHAT, json=body(CHAT, "x")).json()["choices"][0]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("tool_calls", None)
    call = choice["message"]["tool_calls"][0]
    assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == (
        "read",
        CALL["arguments"],
    )
    [item] = http.post(RESPONSES, json=body(RESPONSES, "x")).json()["output"]
    assert (item["type"], json.loads(item["arguments"])) == ("function_call", CALL["arguments"])
    message = http.post(MESSAGES, json=body(MESSAGES, "x")).json()
    assert message["stop_reason"] == "tool_use"
    assert message["content"][0]["input"] == CALL["arguments"]
    [candidate] = http.post(GEMINI, json=body(GEMINI, "x")).json()["candidates"]
    [part] = candidate["content"]["parts"]
    assert (part["functionCall"]["name"], part["functionCall"]["args"]) == ("read", CALL["arguments"])


def test_tool_calls_in_pieces(http: httpx2.Client) -> None:
    plays(http, {"tool_calls": [CALL], "reply": "Let me look."})
    deltas = [chunk["choices"][0]["delta"] for chunk in stream(http, CHAT)]
    [call] = [d["tool_calls"][0] for d in deltas if "tool_calls" in d]
    assert json.loads(call["function"]["arguments"]) == CALL["arguments"]
    events = stream(http, MESSAGES)
    parts = [
        e["delta"]["partial_json"]
        for e in events
        if e["type"] == "content_block_delta" and e["delta"]["type"] == "input_json_delta"
    ]
    assert json.loads("".join(parts)) == CALL["arguments"]
    done = [e for e in stream(http, RESPONSES) if e["type"] == "response.output_item.done"]
    assert [e["item"]["type"] for e in done] == ["message", "function_call"]
    last = stream(http, GEMINI)[-1]["candidates"][0]
    assert last["content"]["parts"][0]["functionCall"]["args"] == CALL["arguments"]


def test_a_tool_loop_is_matched_by_what_the_tool_said(http: httpx2.Client) -> None:
    plays(http, {"match": "file says 42", "reply": "It is 42."}, {"tool_calls": [CALL]})
    first = http.post(MESSAGES, json=body(MESSAGES, "What is it?")).json()
    result = {"type": "tool_result", "tool_use_id": first["content"][0]["id"], "content": "file says 42"}
    turns = [
        {"role": "user", "content": [{"type": "text", "text": "What is it?"}]},
        {"role": "assistant", "content": first["content"]},
        {"role": "user", "content": [result]},
    ]
    second = http.post(MESSAGES, json={"model": "m", "max_tokens": 9, "messages": turns}).json()
    assert said(MESSAGES, second) == "It is 42."


def test_a_tool_loop_with_gemini(http: httpx2.Client) -> None:
    plays(http, {"api": "gemini", "match": "file says 42", "reply": "It is 42."}, {"tool_calls": [CALL]})
    question = {"role": "user", "parts": [{"text": "What is it?"}]}
    first = http.post(GEMINI, json={"contents": [question]}).json()["candidates"][0]["content"]
    call = first["parts"][0]["functionCall"]
    result = {"id": call["id"], "name": call["name"], "response": {"output": "file says 42"}}
    turns = [question, first, {"role": "user", "parts": [{"functionResponse": result}]}]
    assert said(GEMINI, http.post(GEMINI, json={"contents": turns}).json()) == "It is 42."


def test_errors_in_the_vendors_shapes(http: httpx2.Client) -> None:
    plays(http, {"status": 429, "reply": "Slow down", "headers": {"retry-after": "3"}})
    answer = http.post(CHAT, json=body(CHAT, "x"))
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "3")
    assert answer.json()["error"]["code"] == "rate_limit_exceeded"
    answer = http.post(MESSAGES, json=body(MESSAGES, "x"))
    assert answer.json() == {"type": "error", "error": {"type": "rate_limit_error", "message": "Slow down"}}
    answer = http.post(streaming(GEMINI), json=body(GEMINI, "x"))
    error = {"code": 429, "message": "Slow down", "status": "RESOURCE_EXHAUSTED"}
    assert (answer.status_code, answer.json()) == (429, {"error": error})


@pytest.mark.parametrize("path", APIS)
@pytest.mark.parametrize("streamed", [True, False])
def test_a_cut_connection_is_no_end(http: httpx2.Client, path: str, streamed: bool) -> None:
    plays(http, {"reply": "a long answer " * 20, "cut": 2, "times": 1})
    got = bytearray()
    where = streaming(path) if streamed else path
    with http.stream("POST", where, json=body(path, "x", stream=streamed)) as answer:
        pieces = answer.iter_raw()
        with pytest.raises(httpx2.RemoteProtocolError):
            deque(map(got.extend, pieces))
    assert got
    assert b"[DONE]" not in got
    assert http.post(path, json=body(path, "x")).status_code == 200


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        (CHAT, {"model": "m"}),
        (CHAT, {"model": "m", "messages": []}),
        (RESPONSES, {"model": "m"}),
        (GEMINI, {}),
        (GEMINI, {"contents": ["hello"]}),
        (MESSAGES, {"model": "m", "messages": [{"role": "user", "content": "x"}]}),
        (
            CHAT,
            {"messages": [{"role": "user", "content": "x"}], "response_format": {"type": "json_schema"}},
        ),
    ],
)
def test_requests_that_are_none(http: httpx2.Client, path: str, wrong: dict[str, Any]) -> None:
    assert http.post(path, json=wrong).status_code == 400


def test_structured_output_is_accepted(http: httpx2.Client) -> None:
    plays(http, {"reply": {"a": 1}})
    schema = {"name": "s", "strict": True, "schema": {"type": "object"}}
    wanted = {"type": "json_schema", "json_schema": schema}
    answer = http.post(CHAT, json=body(CHAT, "x", response_format=wanted)).json()
    assert json.loads(said(CHAT, answer)) == {"a": 1}


def test_models_are_listed(http: httpx2.Client) -> None:
    assert http.post("/_sim/script", json={"models": ["a", "b"]}).status_code == 200
    assert [model["id"] for model in http.get("/v1/models").json()["data"]] == ["a", "b"]


def test_tokens_are_counted_and_usage_can_be_scripted(http: httpx2.Client) -> None:
    assert http.post(f"{MESSAGES}/count_tokens", json=body(MESSAGES, "x")).json()["input_tokens"] > 0
    counted = http.post(GEMINI.replace("generateContent", "countTokens"), json=body(GEMINI, "x"))
    assert counted.json()["totalTokens"] > 0
    plays(http, {"reply": "x", "usage": {"input": 7, "output": 3, "cached": 2}})
    usage = http.post(CHAT, json=body(CHAT, "x")).json()["usage"]
    assert (usage["prompt_tokens"], usage["total_tokens"]) == (7, 10)
    assert usage["prompt_tokens_details"]["cached_tokens"] == 2


def test_the_log_holds_every_request(http: httpx2.Client) -> None:
    http.post(CHAT, json=body(CHAT, "one"))
    http.post(MESSAGES, json=body(MESSAGES, "two"))
    log = http.get("/_sim/log").json()["requests"]
    assert [(seen["path"], seen["status"]) for seen in log] == [(CHAT, 200), (MESSAGES, 200)]
    assert log[0]["body"]["messages"][0]["content"] == "one"
    assert http.delete("/_sim/log").json() == {"requests": []}


def test_a_wrong_script_is_refused(http: httpx2.Client) -> None:
    for wrong in ([{"match": "("}], [{"repply": "x"}], [{"judge": {"task": "("}}]):
        assert http.post("/_sim/script", json=wrong).status_code == 400
    assert said(CHAT, http.post(CHAT, json=body(CHAT, "x")).json()) == "x"


TASK = Task(
    "1",
    "Login",
    "Write it",
    criteria=(
        Criterion("US1/AC1", "There is a login"),
        Criterion("US1/AC2", "diff: +def logout"),
        Criterion("FR-003", "Fast"),
    ),
)
DIFF = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1,2 @@\n x\n+def login(user):\n"


def verdict(http: httpx2.Client, prompts: list[str]) -> dict[str, Any]:
    turns = [{"role": "user", "content": text} for text in prompts]
    answer = http.post(CHAT, json={"model": "m", "messages": turns}).json()
    found: dict[str, Any] = json.loads(said(CHAT, answer))
    return found


def test_the_judge_looks_at_the_diff_alone(http: httpx2.Client) -> None:
    plays(http, {"judge": {"US1/AC1": r"def login", "US1/AC2": "def logout", "default": True}})
    evidence = Evidence(DIFF, checks=(CheckResult("true", 0, "def logout"),), summary="def logout")
    found = verdict(http, [judge_prompt(TASK, evidence).text])
    assert [(c["key"], c["met"]) for c in found["criteria"]] == [
        ("US1/AC1", True), ("US1/AC2", False), ("FR-003", True),
    ]  # fmt: skip
    assert found["reasoning"]
    quotes = [c["evidence"] for c in found["criteria"] if c["met"]]
    assert all(quote.strip("+") in DIFF for quote in quotes), "what is met is quoted from the diff"


def test_the_judge_answers_again_about_the_same_evidence(http: httpx2.Client) -> None:
    plays(http, {"judge": {"default": False, "US1/AC1": "login"}})
    prompts = [judge_prompt(TASK, Evidence(DIFF)).text, judge_again_prompt("No JSON").text]
    assert [c["met"] for c in verdict(http, prompts)["criteria"]] == [True, False, False]


def test_a_judge_does_not_serve_other_prompts(http: httpx2.Client) -> None:
    plays(http, {"judge": {"default": True}}, {"reply": "no judge"})
    assert said(CHAT, http.post(CHAT, json=body(CHAT, "hello")).json()) == "no judge"


EXEC = {"type": "custom", "name": "exec"}
ADDITIONAL = {"type": "additional_tools", "role": "developer"}
"""How Codex offers its one tool, which runs JavaScript, to its default model."""


def test_codex_s_exec_tool_is_given_the_call_of_a_tool_that_is_not_offered(http: httpx2.Client) -> None:
    offered = {**ADDITIONAL, "tools": [{"type": "namespace", "name": "functions", "tools": [EXEC]}]}
    asked = {"model": "m", "input": [offered, {"role": "user", "content": "work"}]}
    plays(http, {"tool_calls": [{"name": "exec_command", "arguments": {"cmd": "ls"}}]})
    [item] = http.post(RESPONSES, json=asked).json()["output"]
    assert (item["type"], item["name"]) == ("custom_tool_call", "exec")
    assert item["input"] == 'text(await tools.exec_command({"cmd": "ls"}));'
    plays(http, {"tool_calls": [{"name": "exec", "arguments": {"input": "text(1)"}}]})
    assert http.post(RESPONSES, json=asked).json()["output"][0]["input"] == "text(1)"
    plays(http, {"tool_calls": [{"name": "apply_patch", "arguments": {"input": "*** Begin Patch"}}]})
    given = http.post(RESPONSES, json={**asked, "stream": True}).text
    assert "response.custom_tool_call_input.done" in given
    assert 'tools.apply_patch(\\"*** Begin Patch\\")' in given
    plain = {"model": "m", "input": "work", "tools": [{"type": "function", "name": "exec_command"}, EXEC]}
    plays(http, {"tool_calls": [{"name": "exec_command", "arguments": {"cmd": "ls"}}]})
    assert http.post(RESPONSES, json=plain).json()["output"][0]["type"] == "function_call"


def test_an_error_has_the_fields_of_the_script(http: httpx2.Client) -> None:
    plays(http, {"status": 429, "reply": {"message": "Pay.", "code": "insufficient_quota"}})
    error = http.post(RESPONSES, json=body(RESPONSES, "x")).json()["error"]
    assert (error["message"], error["code"]) == ("Pay.", "insufficient_quota")
