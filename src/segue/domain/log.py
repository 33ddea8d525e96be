"""Loggers that cost nothing unless somebody has asked for a log."""

from __future__ import annotations

import sys


class Log:
    """The logger `segue.NAME` of `logging`, which is imported only where somebody reads it.

    Whoever wants a log has imported `logging` to say so; importing it here would delay every command.
    """

    def __init__(self, name: str) -> None:
        self._name = f"segue.{name}"

    def debug(self, text: str, *values: object) -> None:
        """Log a detail."""
        self._note("debug", text, *values)

    def info(self, text: str, *values: object) -> None:
        """Log what a person wants to see of a process that runs for long."""
        self._note("info", text, *values)

    def tell(self, text: str) -> None:
        """Log what a person has to know: it is shown on stderr where nobody asked for a log."""
        import logging

        logging.getLogger(self._name).warning(text)
        # A NullHandler keeps Python from showing other warnings to who has not asked for them.
        handlers = (*logging.getLogger("segue").handlers, *logging.getLogger().handlers)
        if (
            handlers
            and all(isinstance(one, logging.NullHandler) for one in handlers)
            and logging.lastResort is not None
        ):
            logging.lastResort.handle(logging.makeLogRecord({"msg": text, "levelno": logging.WARNING}))

    def _note(self, level: str, text: str, *values: object) -> None:
        if logging := sys.modules.get("logging"):
            getattr(logging.getLogger(self._name), level)(text, *values)
