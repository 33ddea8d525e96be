"""Turn Ctrl-C and termination into a call on the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")


@contextlib.contextmanager
def on_interrupt(call: Callable[[], object]) -> Iterator[None]:
    """Have the loop make a call when this process is interrupted or terminated."""
    loop = asyncio.get_running_loop()
    numbers = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
    try:
        for number in numbers:
            loop.add_signal_handler(number, call)
    except NotImplementedError:
        with _plain_handlers(numbers, lambda: loop.call_soon_threadsafe(call)):
            yield
        return
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


@contextlib.contextmanager
def _plain_handlers(numbers: list[int], call: Callable[[], object]) -> Iterator[None]:
    """Do the same for loops without signals, as on Windows, with a handler that wakes the loop."""
    before = {number: signal.signal(number, lambda *_: call()) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
