"""The last look before others see it: secrets are masked again, and what was found is counted."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

from segue.system.redact import MARK, Redactor

_MAIL = re.compile(r"\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{2,63}){1,4}\b")


class Cleaner:
    """Cleans values and counts what it found, by the place they are written to."""

    def __init__(self, redactor: Redactor, home: Path | None = None) -> None:
        self._redactor = redactor
        home = home or Path.home()
        self._home = str(home) if len(home.parts) > 2 else ""
        self.found: dict[str, Counter[str]] = {}

    def clean(self, place: str, value: Any) -> Any:
        """Return a value as it may be published; lists and objects with all that is in them."""
        if isinstance(value, str):
            return self._text(self.found.setdefault(place, Counter()), value)
        if isinstance(value, dict):
            return {name: self.clean(place, one) for name, one in value.items()}
        if isinstance(value, list | tuple):
            return [self.clean(place, one) for one in value]
        return value

    def _text(self, counts: Counter[str], text: str) -> str:
        masked = self._redactor.text(text)
        counts["secrets_masked_now"] += masked != text
        counts["masked_before"] += text.count(MARK)
        if self._home and self._home in masked:
            counts["home_folders"] += masked.count(self._home)
            masked = masked.replace(self._home, "~")
        counts["mail_addresses_kept"] += len(_MAIL.findall(masked)) if "@" in masked else 0
        return masked

    def report(self) -> dict[str, Any]:
        """Return what was found, by place and in total."""
        total = sum(self.found.values(), Counter[str]())
        places = {place: dict(counts) for place, counts in self.found.items() if any(counts.values())}
        return {"total": dict(total), "places": places}
