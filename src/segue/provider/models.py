"""The handler that LiteLLM calls for every model of Segue's: completion and streaming, sync and async."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any, NoReturn

from segue.provider.catalogue import COMPOSITE, PROVIDERS
from segue.provider.cli_models import Answer
from segue.provider.engine import Call, Engine
from segue.provider.failures import as_litellm
from segue.provider.request import Refused, check_params, read_messages
from segue.provider.response import chunks, fill, note

_USUAL_TIMEOUT = 600.0


class Handler:
    """What LiteLLM wants of a custom provider; it is called with keywords only."""

    def __init__(self, engine: Callable[[], Engine]) -> None:
        self._engine = engine

    def completion(self, **asked: Any) -> Any:
        """Answer, and wait for it."""
        call = _begun(asked)
        return fill(asked["model_response"], self._wait(asked, call), call)

    async def acompletion(self, **asked: Any) -> Any:
        """Answer."""
        call = _begun(asked)
        return fill(asked["model_response"], await self._await(asked, call), call)

    def streaming(self, **asked: Any) -> Iterator[dict[str, Any]]:
        """Answer in pieces, and wait for them."""
        call = _begun(asked)
        yield from chunks(self._wait(asked, call), call)

    async def astreaming(self, **asked: Any) -> AsyncGenerator[dict[str, Any], None]:
        """Answer in pieces."""
        call = _begun(asked)
        for chunk in chunks(await self._await(asked, call), call):
            yield chunk

    def embedding(self, *_: Any, **asked: Any) -> NoReturn:
        """Command-line agents talk; they do nothing else."""
        refused = Refused("Command-line agents offer chat completions only.")
        raise as_litellm(refused, str(asked.get("model", "")), "segue")

    aembedding = image_generation = aimage_generation = image_edit = aimage_edit = embedding

    def _wait(self, asked: dict[str, Any], call: Call) -> Answer:
        try:
            engine = self._engine()
            future = engine.submit(lambda: engine.answer(call))
            try:
                return future.result()
            except BaseException:
                future.cancel()  # Ctrl-C ends the agent, too
                raise
        except Exception as error:
            raise _mapped(error, asked) from error
        finally:
            note(asked.get("logging_obj"), call)

    async def _await(self, asked: dict[str, Any], call: Call) -> Answer:
        try:
            engine = self._engine()
            return await asyncio.wrap_future(engine.submit(lambda: engine.answer(call)))
        except Exception as error:
            raise _mapped(error, asked) from error
        finally:
            note(asked.get("logging_obj"), call)


def _begun(asked: dict[str, Any]) -> Call:
    """The call that LiteLLM describes; what cannot be carried out is refused before anything starts."""
    try:
        provider = _provider(asked)
        params = asked.get("optional_params") or {}
        check_params(params)
        tuning = {name: value for name, value in params.items() if name not in ("stream", "stream_options")}
        messages = read_messages(asked["messages"])
        return Call(f"{provider}/{asked['model']}", messages, tuning, _seconds(asked.get("timeout")))
    except Refused as error:
        raise _mapped(error, asked) from error


def _mapped(error: Exception, asked: dict[str, Any]) -> Exception:
    return as_litellm(error, asked["model"], _provider(asked))


def _provider(asked: dict[str, Any]) -> str:
    named = (asked.get("litellm_params") or {}).get("custom_llm_provider")
    return named if named in PROVIDERS else COMPOSITE


def _seconds(timeout: Any) -> float:
    """LiteLLM passes seconds, httpx's own kind of timeout, or nothing."""
    if isinstance(timeout, int | float) and timeout > 0:
        return float(timeout)
    read = getattr(timeout, "read", None)
    return float(read) if isinstance(read, int | float) and read > 0 else _USUAL_TIMEOUT


def register_with_litellm(handler: Handler) -> None:
    """Put the handler into LiteLLM's list of providers, once."""
    litellm: Any = importlib.import_module("litellm")
    known = {item["provider"] for item in litellm.custom_provider_map}
    missing = [name for name in PROVIDERS if name not in known]
    litellm.custom_provider_map = [
        *litellm.custom_provider_map,
        *({"provider": name, "custom_handler": handler} for name in missing),
    ]
    importlib.import_module("litellm.utils").custom_llm_setup()
