"""A stand-in for language models: the APIs of OpenAI (two), Anthropic and Google, with scripted answers.

    with serve_model({"match": "hello", "reply": "Hello!"}) as model:
        ...  # model.url, model.asked()

The script is a list of entries (`on` in a file). The first that fits a request and is not used up answers:

    match, model, api    regular expressions for the last user message and the model's name; chat, responses,
                         messages or gemini
    times                it answers so many requests; without it, any number
    reply                a text, or any other value, sent as JSON; without a reply the message comes back
    tool_calls           tables with `name` and `arguments`
    judge                it judges what Segue's judges ask: criterion key = regular expression that must
                         be found in the diff, or true or false; `default` for other criteria
    usage                tokens: `input`, `output`, `cached`
    finish               `refusal` or `length`: the answer ends for this reason
    status, headers      from status 400 on, `reply` is the message, or the fields of the error
    delay, hold          seconds before the answer; it waits for `model.release()` or POST /_sim/release
    cut                  the connection is closed after this many pieces

Any key is accepted, but there must be one. POST /_sim/script plays other entries from now on.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import time
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.fakes.serving import Gate, main, serve

Json = dict[str, Any]
_KEYS = {
    *("match", "model", "api", "times", "reply", "tool_calls", "judge", "usage", "finish"),
    *("status", "headers", "delay", "hold", "cut"),
}
_PIECE = 16
_ASKED = ("/v1/chat/completions", "/v1/responses", "/v1/messages")


class BadRequest(Exception):
    """The request is invalid; the text says why."""


@dataclass(frozen=True)
class Asked:
    """A request, in terms that all APIs share."""

    api: str
    model: str
    users: list[str]
    """The user messages, oldest first."""
    stream: bool
    body: Json

    @property
    def last(self) -> str:
        """The last user message."""
        return self.users[-1] if self.users else ""


@dataclass(frozen=True)
class Answer:
    """An answer, in terms that all APIs share."""

    model: str
    text: str
    calls: list[Json]
    """`name`, `arguments` and `id` of each tool that it uses."""
    usage: Mapping[str, int]
    finish: str
    """Why it ends, if not well: `refusal` or `length`."""
    asked: Json

    @property
    def texts(self) -> list[str]:
        """The text, unless there are only calls."""
        return [self.text] if self.text or not self.calls else []


class Script:
    """The entries, and how many requests each of them has answered."""

    def __init__(self, entries: list[Json]) -> None:
        for entry in entries:
            if unknown := entry.keys() - _KEYS:
                raise ValueError(f"an entry has no {', '.join(sorted(unknown))}")
        self._entries = entries
        self._answered = [0] * len(entries)

    def pick(self, asked: Asked) -> Json:
        """Count and return the entry that answers a request; without one, its message comes back."""
        for index, entry in enumerate(self._entries):
            is_left = not entry.get("times") or self._answered[index] < entry["times"]
            if is_left and _fits(entry, asked):
                self._answered[index] += 1
                return entry
        return {}


def _fits(entry: Json, asked: Asked) -> bool:
    return (
        entry.get("api", asked.api) == asked.api
        and re.search(entry.get("model", ""), asked.model) is not None
        and re.search(entry.get("match", ""), asked.last) is not None
        and ("judge" not in entry or judge(entry["judge"], asked.users) is not None)
    )


def _compose(entry: Json, asked: Asked) -> Answer:
    reply, given = entry.get("reply"), entry.get("tool_calls", [])
    if "judge" in entry:
        reply = judge(entry["judge"], asked.users)
    if reply is None:
        reply = "" if given else asked.last
    text = reply if isinstance(reply, str) else json.dumps(reply, ensure_ascii=False)
    calls = [{"arguments": {}, "id": f"call_{uuid.uuid4().hex}", **call} for call in given]
    output = max(1, len(text) // 4 + 10 * len(calls))
    usage = {
        "input": max(1, len(json.dumps(asked.body)) // 4),
        "output": output,
        "cached": 0,
        **entry.get("usage", {}),
    }
    return Answer(asked.model, text, calls, usage, entry.get("finish", ""), asked.body)


# ---- Judging


def judge(rule: Mapping[str, str | bool], users: list[str]) -> Json | None:
    """Return the verdict on the newest message that asks for one; None if there is none."""
    for text in reversed(users):
        if (criteria := _read_block("criteria", text)) is None:
            continue
        diff, checks = _read_block("diff", text) or "", _read_block("checks", text) or ""
        found = [
            _judge_one(rule, key, diff, checks) for key in re.findall(r'^\{"key": "(.*?)"', criteria, re.M)
        ]
        verdict = {"criteria": found, "reasoning": "The diff was searched for regular expressions."}
        if '"action"' not in text:
            return verdict
        action = "PROCEED" if all(entry["met"] for entry in found) else "RETRY"
        return {**verdict, "action": action, "request": "", "caveats": []}
    return None


def _judge_one(rule: Mapping[str, str | bool], key: str, diff: str, checks: str) -> Json:
    wanted = rule.get(key, rule.get("default", True))
    if wanted is False:
        return {"key": key, "met": False, "evidence": "The script says that this is not met."}
    if wanted is True:
        return {"key": key, "met": True, "evidence": _quote_any(diff, checks)}
    found = re.search(wanted, diff, re.MULTILINE)
    if found is None:
        return {"key": key, "met": False, "evidence": f"Nothing in the diff looks like {wanted}"}
    return {
        "key": key,
        "met": True,
        "evidence": diff[diff.rfind("\n", 0, found.start()) + 1 :].partition("\n")[0],
    }


def _quote_any(diff: str, checks: str) -> str:
    """Return a line that can be quoted: the longest added one that is no comment, else one of the checks."""
    added = [line.strip() for line in re.findall(r"^\+(?!\+\+ )(.*\S.*)$", diff, re.MULTILINE)]
    code = [line for line in added if not line.startswith(("#", "//", "/*", "*", "--", "<!--", '"""'))]
    lines = [line for line in checks.splitlines() if line.strip()]
    return max(code or added, key=len, default=(lines or ["(the evidence shows nothing to quote)"])[0])


def _read_block(label: str, prompt: str) -> str | None:
    """Return what a prompt has between the lines `<<<label CODE>>>` and `<<<end of label CODE>>>`."""
    fenced = rf"^<<<{label} (\S+)>>>\n(.*?)\n<<<end of {label} \1>>>$"
    found = re.search(fenced, prompt, re.DOTALL | re.MULTILINE)
    return found[2] if found else None


# ---- What all APIs share


def _require_objects(body: Json, name: str) -> list[Json]:
    value = body.get(name)
    if not isinstance(value, list) or not value or not all(isinstance(item, dict) for item in value):
        raise BadRequest(f"Invalid type for '{name}': expected a non-empty array of objects.")
    return value


def _join(content: Any) -> str:
    """Join the text of a message, a string or a list of parts; results of tools count as text."""
    if isinstance(content, str):
        return content
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    return "\n".join(text for part in parts if (text := _join(part.get("text", part.get("content", "")))))


def _read(api: str, body: Json, users: list[str]) -> Asked:
    return Asked(api, str(body.get("model", "")), users, bool(body.get("stream")), body)


def _split(text: str) -> list[str]:
    return [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]


def _data(data: Json) -> bytes:
    """Encode an event without a name."""
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def _event(data: Json) -> bytes:
    """Encode an event that is named after its type."""
    return f"event: {data['type']}\n".encode() + _data(data)


# ---- OpenAI's chat completions


class Chat:
    """Chat completions."""

    def read(self, body: Json) -> Asked:
        """Read a request; raises BadRequest."""
        turns = _require_objects(body, "messages")
        form = body.get("response_format") or {}
        if form.get("type") == "json_schema" and not (form.get("json_schema") or {}).get("name"):
            raise BadRequest("Missing required parameter: 'response_format.json_schema.name'.")
        users = [_join(turn.get("content")) for turn in turns if turn.get("role") == "user"]
        return _read("chat", body, users)

    def document(self, answer: Answer) -> Json:
        """Build the answer as one document."""
        message: Json = {"role": "assistant", "content": answer.text or None}
        if answer.calls:
            message["tool_calls"] = self._calls(answer)
        choice = {"index": 0, "message": message, "finish_reason": self._reason(answer), "logprobs": None}
        return self._head("chat.completion", answer) | {"choices": [choice], "usage": self._usage(answer)}

    def stream(self, answer: Answer) -> Iterator[bytes]:
        """Yield the answer in pieces."""
        head = self._head("chat.completion.chunk", answer)

        def chunk(delta: Json, reason: str | None = None) -> bytes:
            choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
            return _data(head | {"choices": [choice]})

        yield chunk({"role": "assistant", "content": ""})
        for piece in _split(answer.text):
            yield chunk({"content": piece})
        for index, call in enumerate(self._calls(answer)):
            yield chunk({"tool_calls": [{"index": index, **call}]})
        yield chunk({}, self._reason(answer))
        if (answer.asked.get("stream_options") or {}).get("include_usage"):
            yield _data(head | {"choices": [], "usage": self._usage(answer)})
        yield b"data: [DONE]\n\n"

    def error(self, status: int, message: str) -> Json:
        """Build an error."""
        known = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}
        kind = "requests" if status == 429 else "invalid_request_error" if status < 500 else "server_error"
        return {"error": {"message": message, "type": kind, "param": None, "code": known.get(status)}}

    def _head(self, kind: str, answer: Answer) -> Json:
        name = f"chatcmpl-{uuid.uuid4().hex}"
        return {"id": name, "object": kind, "created": int(time.time()), "model": answer.model}

    def _calls(self, answer: Answer) -> list[Json]:
        calls = []
        for call in answer.calls:
            function = {"name": call["name"], "arguments": json.dumps(call["arguments"])}
            calls.append({"id": call["id"], "type": "function", "function": function})
        return calls

    def _reason(self, answer: Answer) -> str:
        ends = {"refusal": "content_filter", "length": "length"}
        return ends.get(answer.finish) or ("tool_calls" if answer.calls else "stop")

    def _usage(self, answer: Answer) -> Json:
        used = answer.usage
        total = used["input"] + used["output"]
        cached = {"cached_tokens": used["cached"]}
        counted = {"prompt_tokens": used["input"], "completion_tokens": used["output"]}
        return {**counted, "total_tokens": total, "prompt_tokens_details": cached}


# ---- OpenAI's responses

_IN_PIECES = {"message": "content", "function_call": "arguments", "custom_tool_call": "input"}
"""The field of an item that comes in pieces."""


class Responses(Chat):
    """Responses, as far as coding agents use them; errors are those of chat completions."""

    def read(self, body: Json) -> Asked:
        """Read a request; raises BadRequest."""
        given = body.get("input")
        turns = (
            [{"role": "user", "content": given}]
            if isinstance(given, str)
            else _require_objects(body, "input")
        )
        users = [_join(turn.get("content")) for turn in turns if turn.get("role") == "user"]
        return _read("responses", body, users)

    def document(self, answer: Answer) -> Json:
        """Build the answer as one document."""
        return self._response(answer, self._end(answer), self._items(answer), f"resp_{uuid.uuid4().hex}")

    def stream(self, answer: Answer) -> Iterator[bytes]:
        """Yield the answer in numbered pieces."""
        for number, data in zip(itertools.count(), self._events(answer), strict=False):
            yield _event(data | {"sequence_number": number})

    def _events(self, answer: Answer) -> Iterator[Json]:
        name, items = f"resp_{uuid.uuid4().hex}", self._items(answer)
        started = self._response(answer, "in_progress", [], name)
        yield {"type": "response.created", "response": started}
        yield {"type": "response.in_progress", "response": started}
        for index, item in enumerate(items):
            yield from self._item_events(index, item)
        status = self._end(answer)
        yield {"type": f"response.{status}", "response": self._response(answer, status, items, name)}

    def _item_events(self, index: int, item: Json) -> Iterator[Json]:
        place = {"output_index": index, "item_id": item["id"]}
        field = _IN_PIECES[item["type"]]
        begun = item | {field: [] if item["type"] == "message" else "", "status": "in_progress"}
        yield {"type": "response.output_item.added", "output_index": index, "item": begun}
        if item["type"] == "message":
            part, spot = item["content"][0], place | {"content_index": 0}
            yield {"type": "response.content_part.added", **spot, "part": part | {"text": ""}}
            for piece in _split(part["text"]):
                yield {"type": "response.output_text.delta", **spot, "delta": piece}
            yield {"type": "response.output_text.done", **spot, "text": part["text"]}
            yield {"type": "response.content_part.done", **spot, "part": part}
        else:
            kind = f"response.{item['type']}_{field}"
            yield {"type": f"{kind}.delta", **place, "delta": item[field]}
            yield {"type": f"{kind}.done", **place, field: item[field]}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}

    def _items(self, answer: Answer) -> list[Json]:
        items: list[Json] = []
        for text in answer.texts:
            head = {"id": f"msg_{uuid.uuid4().hex}", "type": "message", "role": "assistant"}
            content = [{"type": "output_text", "text": text, "annotations": []}]
            items.append({**head, "status": "completed", "content": content})
        offered = dict(_find_tools([answer.asked.get("tools"), answer.asked.get("input")]))
        return items + [self._call(call, offered) for call in answer.calls]

    def _call(self, call: Json, offered: Mapping[str, str]) -> Json:
        """Make the item that calls a tool.

        Where the tool is not offered but Codex's `exec` is, which runs JavaScript, the call is a line of it.
        """
        name, given = call["name"], call["arguments"]
        shared = {"status": "completed", "call_id": call["id"]}
        if offered.get(name) == "custom":
            text = str(given.get("input", json.dumps(given)))
            kind = {"id": f"ctc_{uuid.uuid4().hex}", "type": "custom_tool_call"}
            return {**kind, **shared, "name": name, "input": text}
        if name not in offered and offered.get("exec") == "custom":
            value = given.get("input") if name == "apply_patch" else given
            line = f"text(await tools.{name}({json.dumps(value)}));"
            return self._call({"name": "exec", "arguments": {"input": line}, "id": call["id"]}, offered)
        kind = {"id": f"fc_{uuid.uuid4().hex}", "type": "function_call"}
        return {**kind, **shared, "name": name, "arguments": json.dumps(given)}

    def _end(self, answer: Answer) -> str:
        return "incomplete" if answer.finish else "completed"

    def _response(self, answer: Answer, status: str, items: list[Json], name: str) -> Json:
        ends = {"refusal": "content_filter", "length": "max_output_tokens"}
        used = answer.usage
        usage = {"input_tokens": used["input"], "output_tokens": used["output"]}
        usage["total_tokens"] = sum(usage.values())
        details = {
            "input_tokens_details": {"cached_tokens": used["cached"]},
            "output_tokens_details": {"reasoning_tokens": 0},
        }
        head = {"id": name, "object": "response", "created_at": int(time.time()), "status": status}
        return {
            **head,
            "model": answer.model,
            "output": items,
            "error": None,
            "incomplete_details": {"reason": ends[answer.finish]} if answer.finish else None,
            "usage": None if status == "in_progress" else usage | details,
        }


def _find_tools(data: Any) -> Iterator[tuple[str, str]]:
    """Yield the tools in a request and their types; Codex also gives them as an item of the input."""
    for item in data if isinstance(data, list) else ():
        if isinstance(item, list):
            yield from _find_tools(item)
        elif isinstance(item, dict) and item.get("type") in ("additional_tools", "namespace"):
            yield from _find_tools(item.get("tools"))
        elif isinstance(item, dict) and item.get("type") in ("function", "custom"):
            yield str(item.get("name")), item["type"]


# ---- Anthropic's messages


class Messages:
    """Messages."""

    def read(self, body: Json) -> Asked:
        """Read a request; raises BadRequest."""
        turns = _require_objects(body, "messages")
        if not isinstance(body.get("max_tokens"), int):
            raise BadRequest("max_tokens: Field required")
        users = [_join(turn.get("content")) for turn in turns if turn.get("role") == "user"]
        return _read("messages", body, users)

    def document(self, answer: Answer) -> Json:
        """Build the answer as one document."""
        return self._message(answer, self._blocks(answer), self._reason(answer), answer.usage["output"])

    def stream(self, answer: Answer) -> Iterator[bytes]:
        """Yield the answer in pieces."""
        yield _event({"type": "message_start", "message": self._message(answer, [], None, 1)})
        for index, block in enumerate(self._blocks(answer)):
            if block["type"] == "text":
                empty = block | {"text": ""}
                deltas = [{"type": "text_delta", "text": piece} for piece in _split(block["text"])]
            else:
                empty = block | {"input": {}}
                pieces = _split(json.dumps(block["input"]))
                deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
            yield _event({"type": "content_block_start", "index": index, "content_block": empty})
            for delta in deltas:
                yield _event({"type": "content_block_delta", "index": index, "delta": delta})
            yield _event({"type": "content_block_stop", "index": index})
        end = {"stop_reason": self._reason(answer), "stop_sequence": None}
        usage = {"output_tokens": answer.usage["output"]}
        yield _event({"type": "message_delta", "delta": end, "usage": usage})
        yield _event({"type": "message_stop"})

    def error(self, status: int, message: str) -> Json:
        """Build an error."""
        known = {401: "authentication", 404: "not_found", 429: "rate_limit", 529: "overloaded"}
        kind = known.get(status, "invalid_request" if status < 500 else "api")
        return {"type": "error", "error": {"type": f"{kind}_error", "message": message}}

    def _blocks(self, answer: Answer) -> list[Json]:
        used = [
            {"type": "tool_use", "id": call["id"], "name": call["name"], "input": call["arguments"]}
            for call in answer.calls
        ]
        return [*({"type": "text", "text": text} for text in answer.texts), *used]

    def _message(self, answer: Answer, blocks: list[Json], reason: str | None, output: int) -> Json:
        head = {
            "id": f"msg_{uuid.uuid4().hex}",
            "type": "message",
            "role": "assistant",
            "model": answer.model,
        }
        cached = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": answer.usage["cached"]}
        usage = {"input_tokens": answer.usage["input"], **cached, "output_tokens": output}
        end = {"stop_reason": reason, "stop_sequence": None}
        return {**head, "content": blocks, **end, "usage": usage}

    def _reason(self, answer: Answer) -> str:
        ends = {"refusal": "refusal", "length": "max_tokens"}
        return ends.get(answer.finish) or ("tool_use" if answer.calls else "end_turn")


# ---- Google's generateContent


class Gemini:
    """Google's generateContent."""

    def read(self, body: Json) -> Asked:
        """Read a request, to which `model` and `stream` were added from its path; raises BadRequest."""
        turns = _require_objects(body, "contents")
        users = [self._text(turn) for turn in turns if turn.get("role", "user") in ("user", "function")]
        return _read("gemini", body, users)

    def document(self, answer: Answer) -> Json:
        """Build the answer as one document."""
        parts = [*({"text": text} for text in answer.texts), *self._calls(answer)]
        return self._document(answer, f"fake-{uuid.uuid4().hex}", parts, last=True)

    def stream(self, answer: Answer) -> Iterator[bytes]:
        """Yield the answer in pieces; the last one says that it is the last."""
        name = f"fake-{uuid.uuid4().hex}"
        for piece in _split(answer.text):
            yield _data(self._document(answer, name, [{"text": piece}], last=False))
        yield _data(self._document(answer, name, self._calls(answer) or [{"text": ""}], last=True))

    def error(self, status: int, message: str) -> Json:
        """Build an error."""
        known = {401: "UNAUTHENTICATED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}
        word = known.get(status, "INVALID_ARGUMENT" if status < 500 else "INTERNAL")
        return {"error": {"code": status, "message": message, "status": word}}

    def _text(self, turn: Json) -> str:
        """Join the texts of a turn; results of tools count as text."""
        said = []
        for part in turn.get("parts") or []:
            result = part.get("functionResponse")
            said.append(json.dumps(result) if result else str(part.get("text") or ""))
        return "\n".join(text for text in said if text)

    def _calls(self, answer: Answer) -> list[Json]:
        return [
            {"functionCall": {"id": call["id"], "name": call["name"], "args": call["arguments"]}}
            for call in answer.calls
        ]

    def _document(self, answer: Answer, name: str, parts: list[Json], last: bool) -> Json:
        candidate: Json = {"content": {"role": "model", "parts": parts}, "index": 0}
        if last:
            ends = {"refusal": "SAFETY", "length": "MAX_TOKENS"}
            candidate["finishReason"] = ends.get(answer.finish, "STOP")
        used = answer.usage
        counted = {
            "promptTokenCount": used["input"],
            "cachedContentTokenCount": used["cached"],
            "candidatesTokenCount": used["output"],
            "totalTokenCount": used["input"] + used["output"],
        }
        head = {"modelVersion": answer.model, "responseId": name}
        return {"candidates": [candidate], "usageMetadata": counted, **head}


Dialect = Chat | Responses | Messages | Gemini


# ---- Serving


class Model:
    """The model: its script, its address, and what it was asked."""

    def __init__(self, *entries: Json) -> None:
        self.url = ""
        self._released = False
        self._script = Script([])
        self.plays(*entries)
        dialects: dict[str, Dialect] = {
            "/v1/chat/completions": Chat(),
            "/v1/responses": Responses(),
            "/v1/messages": Messages(),
            "/v1beta/models/{model}:generateContent": Gemini(),
            "/v1beta/models/{model}:streamGenerateContent": Gemini(),
        }
        counts = ("/v1/messages/count_tokens", "/v1beta/models/{model}:countTokens")
        handlers = {path: partial(self._answer, dialect) for path, dialect in dialects.items()}
        routes: dict[str, Any] = {**handlers, **dict.fromkeys(counts, _count)}
        routes |= dict.fromkeys(("/_sim/script", "/_sim/release"), self._control)
        self.app = Gate(Starlette(routes=[Route(*one, methods=["POST"]) for one in routes.items()]))

    @property
    def base_url(self) -> str:
        """The address that clients of OpenAI want."""
        return f"{self.url}/v1"

    def plays(self, *entries: Json) -> None:
        """Answer by these entries from now on."""
        self._script, self._released = Script(list(entries)), False

    def release(self) -> None:
        """Let the answers go that are held."""
        self._released = True

    def asked(self) -> list[Json]:
        """Return the bodies of the requests for an answer, oldest first."""
        seen = [(entry["path"], entry["body"]) for entry in self.app.log]
        return [body for path, body in seen if path in _ASKED or path.endswith("enerateContent")]

    async def _control(self, request: Request) -> Response:
        if request.url.path.endswith("release"):
            self.release()
        else:
            sent = await request.json()
            self.plays(*(sent if isinstance(sent, list) else sent.get("on", [])))
        return JSONResponse({})

    async def _answer(self, dialect: Dialect, request: Request) -> Response:
        if not _has_key(request):
            return JSONResponse(dialect.error(401, "No API key was given."), 401)
        try:
            asked = dialect.read(await request.json() | _read_path(request))
        except BadRequest as error:
            return JSONResponse(dialect.error(400, str(error)), 400)
        entry = self._script.pick(asked)
        while entry.get("hold") and not self._released:
            await asyncio.sleep(0.02)
        await asyncio.sleep(entry.get("delay", 0))
        status, headers = entry.get("status", 200), entry.get("headers", {})
        if status >= 400:
            return JSONResponse(_refuse(dialect, status, entry.get("reply")), status, headers)
        answer, cut = _compose(entry, asked), entry.get("cut")
        kind, pieces = "text/event-stream", dialect.stream(answer)
        if not asked.stream:
            kind, pieces = "application/json", iter([json.dumps(dialect.document(answer)).encode()])
            cut = None if cut is None else 0
        return StreamingResponse(_send(request, pieces, cut), status, headers, kind)


async def _count(request: Request) -> Response:
    tokens = max(1, len(await request.body()) // 4)
    return JSONResponse({"input_tokens": tokens, "totalTokens": tokens})


def _has_key(request: Request) -> bool:
    names = ("authorization", "x-api-key", "x-goog-api-key")
    return any(request.headers.get(name) for name in names)


def _read_path(request: Request) -> Json:
    """Read what Google's API has in the path and the others have in the body."""
    if "model" not in request.path_params:
        return {}
    return {"model": request.path_params["model"], "stream": "streamGenerateContent" in request.url.path}


def _refuse(dialect: Dialect, status: int, reply: Any) -> Json:
    fields = reply if isinstance(reply, dict) else {} if reply is None else {"message": reply}
    refusal = dialect.error(status, "The script says so.")
    refusal["error"] |= fields
    return refusal


async def _send(request: Request, pieces: Iterator[bytes], cut: int | None) -> AsyncIterator[bytes]:
    """Yield the pieces; after `cut` of them, half a piece, and then close the connection."""
    for number, piece in enumerate(pieces):
        if number == cut:
            yield piece[: len(piece) // 2]
            request.scope["state"]["transport"].close()
            while (await request.receive())["type"] != "http.disconnect":
                pass
            return
        yield piece


@contextmanager
def serve_model(*entries: Json, port: int = 0) -> Iterator[Model]:
    """Serve a model with these entries on loopback while the block runs."""
    model = Model(*entries)
    with serve(model.app, port) as model.url:
        yield model


if __name__ == "__main__":
    main(lambda script: Model(*script.get("on", [])).app, "Serve a scripted language model.")
