"""Split chunks of bytes into lines, in bounded memory."""

from __future__ import annotations

from msgspec import Struct

_PIECE = 1024**2
_WITHIN_CHARACTERS = bytes(range(0x80, 0xC0))
"""The bytes of UTF-8 with which no character begins."""


class OutputLine(Struct, frozen=True):
    """One line of text; `cut` is the number of bytes dropped beyond the cap."""

    text: str
    cut: int = 0


class LineFramer:
    """Turns bytes into lines, keeping at most `cap` bytes of each, and `most` characters of a longer one."""

    def __init__(self, cap: int, most: int | None = None) -> None:
        self._cap, self._most = cap, most
        self._kept = bytearray()
        self._cut = 0
        self._pending_return = False

    def feed(self, data: bytes) -> list[OutputLine]:
        """Return the lines that these bytes complete."""
        *ends, rest = data.split(b"\n")
        lines = []
        for end in ends:
            self._keep(end)
            lines.append(self._finish())
        self._keep(rest)
        return lines

    def close(self) -> list[OutputLine]:
        """Return the rest without a line end, and start over."""
        if not self._kept and not self._cut and not self._pending_return:
            return []
        return [self._finish()]

    def _keep(self, data: bytes) -> None:
        if not data:
            return
        # A return is kept back until it is clear whether it ends the line, so that it never counts as cut.
        if self._pending_return:
            self._append(b"\r")
        self._pending_return = data.endswith(b"\r")
        self._append(data[:-1] if self._pending_return else data)

    def _append(self, data: bytes) -> None:
        room = 0 if self._cut else self._cap - len(self._kept)
        self._kept += data[:room]
        if len(data) > room:
            if not self._cut and self._most is not None:
                self._shrink(self._most)
            self._cut += len(data) - room

    def _shrink(self, most: int) -> None:
        """Keep the first characters alone: to find their end, nothing is decoded or copied as a whole."""
        end, left = 0, most
        while end < len(self._kept) and left > 0:
            piece = self._kept[end : end + min(left, _PIECE)]
            left -= len(piece.translate(None, _WITHIN_CHARACTERS))
            end += len(piece)
        while end < len(self._kept) and self._kept[end] in _WITHIN_CHARACTERS:
            end += 1
        self._cut += len(self._kept) - end
        del self._kept[end:]

    def _finish(self) -> OutputLine:
        kept = _whole_characters(bytes(self._kept)) if self._cut else bytes(self._kept)
        cut = self._cut + len(self._kept) - len(kept)
        text = kept.decode("utf-8", "replace")
        self._kept, self._cut, self._pending_return = bytearray(), 0, False
        return OutputLine(f"{text}…[{cut} bytes cut]" if cut else text, cut)


def _whole_characters(data: bytes) -> bytes:
    """Drop a character at the end that the cap cut in two."""
    for back in range(1, min(4, len(data)) + 1):
        lead = data[-back]
        if lead < 0x80:
            return data
        if lead >= 0xC0:
            size = 2 + (lead >= 0xE0) + (lead >= 0xF0)
            return data[:-back] if size > back else data
    return data
