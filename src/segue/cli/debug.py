"""The log of what Segue itself does, for who looks for a mistake: `--debug` and SEGUE_LOG."""

from __future__ import annotations

import logging
import os
from functools import cached_property
from pathlib import Path

from segue.domain.errors import UsageError
from segue.domain.text import clean
from segue.system.redact import Redactor
from segue.system.sensitive import secrets_of, user_secrets

VARIABLE = "SEGUE_LOG"
_LEVELS = ("debug", "info", "warning", "error")
_FILE = "file:"


class RedactingFormatter(logging.Formatter):
    """Writes a record as one line, without the secrets of this user."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s[%(process)d] %(message)s")

    @cached_property
    def _redactor(self) -> Redactor:
        return Redactor(secrets_of(os.environ), later=user_secrets)

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as text."""
        return clean(self._redactor.text(super().format(record)))


def configure(wanted: str) -> None:
    """Log as SEGUE_LOG says: a level, for stderr, or `file:PATH`, which gets everything."""
    handler: logging.Handler = logging.StreamHandler()
    level = wanted.lower()
    if wanted.startswith(_FILE):
        path = Path(wanted[len(_FILE) :]).expanduser()
        try:
            handler, level = logging.FileHandler(path, encoding="utf-8", delay=False), "debug"
        except OSError as error:
            raise UsageError(f"{VARIABLE}: {path} cannot be written: {error.strerror}.") from None
        path.chmod(0o600)
    elif level not in _LEVELS:
        raise UsageError(
            f"{VARIABLE}={wanted} is neither a level nor a file.",
            hint=f"Set it to {', '.join(_LEVELS)}, or {_FILE}PATH",
        )
    handler.setFormatter(RedactingFormatter())
    log = logging.getLogger("segue")
    log.addHandler(handler)
    log.setLevel(level.upper())
    log.propagate = False
    os.environ[VARIABLE] = wanted  # processes that continue the run inherit it
