"""Text files are UTF-8, or are refused with the byte that cannot be read."""

from __future__ import annotations

from segue.domain.errors import SourceError


def strict_text(data: bytes, name: str, sentence: str = "") -> str:
    """The text of a file; `sentence` opens the refusal."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        said = f"{name} is not UTF-8: byte {error.start} (line {line}) cannot be read."
        raise SourceError(
            f"{sentence} {said}".strip(),
            kept="Nothing was changed.",
            hint="Save the file as UTF-8, for example with `iconv -f LATIN1 -t UTF-8`.",
        ) from None
