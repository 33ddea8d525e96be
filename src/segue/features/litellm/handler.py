"""The handler that LiteLLM calls for Segue's models: completion and streaming, sync and async."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import itertools
import queue
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from segue.features.litellm.engine import Engine
from segue.features.litellm.failures import InvalidRequest, to_litellm, to_stream_error
from segue.features.litellm.request import ModelCall, provider_of, read_call
from segue.features.litellm.response import ModelAnswer, add_trace, fill_response, last_chunk, make_chunks


class LiteLLMHandler:
    """LiteLLM's interface for custom providers; it is called with keyword arguments only."""

    def __init__(self, engine: Callable[[], Engine]) -> None:
        self._engine = engine

    def completion(self, **asked: Any) -> Any:
        """Answer in one piece."""
        return fill_response(asked["model_response"], *self._wait(asked))

    async def acompletion(self, **asked: Any) -> Any:
        """Answer in one piece."""
        return fill_response(asked["model_response"], *await self._await(asked))

    def streaming(self, **asked: Any) -> Iterator[dict[str, Any]]:
        """Answer in chunks while the agent speaks; a failure before the first one is raised here."""
        chunks = self._chunks(asked)
        return itertools.chain([next(chunks)], chunks)

    async def astreaming(self, **asked: Any) -> AsyncGenerator[dict[str, Any], None]:
        """Answer in chunks while the agent speaks; a failure is one on which routers fall back."""
        loop, pieces = asyncio.get_running_loop(), asyncio.Queue[str | None]()

        def put(piece: str | None) -> None:
            with contextlib.suppress(RuntimeError):  # the caller's loop has ended, and so has the call
                loop.call_soon_threadsafe(pieces.put_nowait, piece)

        has_spoken = False
        try:
            with _begin(asked) as call:
                future = self._engine().answer(call, put)
                future.add_done_callback(lambda _: put(None))
                try:
                    while (piece := await pieces.get()) is not None:
                        has_spoken = True
                        for chunk in make_chunks(piece):
                            yield chunk
                    for chunk in _end(future.result(), call, asked, has_spoken):
                        yield chunk
                finally:
                    future.cancel()
        except Exception as error:
            raise to_stream_error(error, has_spoken) from error

    def embedding(self, *_: Any, **asked: Any) -> NoReturn:
        """Refuse everything but chat."""
        refused = InvalidRequest("Command-line agents offer chat completions only.")
        raise to_litellm(refused, str(asked.get("model", "")), "segue")

    aembedding = image_generation = aimage_generation = image_edit = aimage_edit = embedding

    def _wait(self, asked: dict[str, Any]) -> tuple[ModelAnswer, ModelCall]:
        with _begin(asked) as call:
            future = self._engine().answer(call)
            try:
                return future.result(), call
            except BaseException:
                future.cancel()  # Ctrl-C also stops the agent
                raise

    def _chunks(self, asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
        pieces = queue.SimpleQueue[str | None]()
        has_spoken = False
        try:
            with _begin(asked) as call:
                future = self._engine().answer(call, pieces.put)
                future.add_done_callback(lambda _: pieces.put(None))
                try:
                    while (piece := pieces.get()) is not None:
                        has_spoken = True
                        yield from make_chunks(piece)
                    yield from _end(future.result(), call, asked, has_spoken)
                finally:
                    future.cancel()
        except Exception as error:
            raise (to_stream_error(error, True) if has_spoken else error) from error

    async def _await(self, asked: dict[str, Any]) -> tuple[ModelAnswer, ModelCall]:
        with _begin(asked) as call:
            return await asyncio.wrap_future(self._engine().answer(call)), call


def _end(
    answer: ModelAnswer, call: ModelCall, asked: dict[str, Any], has_spoken: bool
) -> Iterator[dict[str, Any]]:
    """Return the last chunks: the answer, unless it was heard already, and how it ended."""
    add_trace(asked.get("logging_obj"), call)
    yield from () if has_spoken else make_chunks(answer.text)
    yield last_chunk(answer, call)


@contextmanager
def _begin(asked: dict[str, Any]) -> Iterator[ModelCall]:
    """Read the call, translate whatever fails, and show the trace to LiteLLM in any case."""
    call = None
    try:
        call = read_call(asked)
        yield call
    except Exception as error:
        raise to_litellm(error, asked["model"], provider_of(asked)) from error
    finally:
        if call is not None:
            add_trace(asked.get("logging_obj"), call)


def register_with_litellm(handler: LiteLLMHandler, providers: Iterable[str]) -> None:
    """Add the handler to LiteLLM's list of providers, once for each name."""
    litellm: Any = importlib.import_module("litellm")
    known = {item["provider"] for item in litellm.custom_provider_map}
    missing = [name for name in providers if name not in known]
    litellm.custom_provider_map = [
        *litellm.custom_provider_map,
        *({"provider": name, "custom_handler": handler} for name in missing),
    ]
    importlib.import_module("litellm.utils").custom_llm_setup()
