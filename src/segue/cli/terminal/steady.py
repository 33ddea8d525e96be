"""A live display that leaves no debris when its terminal changes size."""

from __future__ import annotations

from rich.console import ConsoleDimensions, ConsoleRenderable
from rich.control import Control
from rich.live import Live


class SteadyLive(Live):
    """Draws on a clean screen after a resize: the terminal may have wrapped what was drawn before."""

    _size: ConsoleDimensions | None = None

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """Return what is drawn; the first of it moves the cursor to where the last frame began."""
        drawn = super().process_renderables(renderables)
        size = self.console.size
        resized = self._size is not None and size != self._size
        self._size = size
        if not (resized and drawn and self.console.is_terminal):
            return drawn
        return [Control.clear(), Control.home(), *drawn[1:]]
