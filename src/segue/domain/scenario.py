"""Black-box scenarios: a command or an HTTP request, and what must come out of it."""

from __future__ import annotations

import re
import shlex
import textwrap
from typing import Annotated, Any, Self

from msgspec import Meta

from segue.domain.options import Argv, OptionError, Options, Port, Text, read_options

_FENCE = re.compile(r"^([ \t>]*)(`{3,}|~{3,})[ \t]*scenario[ \t]*\n(.*?)^[ \t>]*\2", re.DOTALL | re.MULTILINE)
_OF_COMMANDS = ("exit_code", "stdout")
_OF_REQUESTS = ("start", "status", "json")


class Texts(tuple[str, ...]):
    """One text, or a list of them."""

    __slots__ = ()

    @classmethod
    def read_option(cls, value: Any) -> Self:
        """Read text or a list of texts."""
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
            raise ValueError('expected text such as "Hello", or a list of texts')
        return cls(texts)

    @staticmethod
    def option_schema() -> dict[str, Any]:
        """Return the JSON Schema of one text or several."""
        return {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}


class RequestOptions(Options, frozen=True):
    """An HTTP request to the program that the scenario starts."""

    method: Text = "GET"
    """The method."""
    path: Annotated[str, Meta(pattern="^/", extra={"expected": "a path that begins with /"})] = "/"
    """The path, with its query."""
    port: Port = 0
    """The port that the program listens on; 0: a free one, which the program finds as `PORT` in its
    environment and as `{port}` in its arguments."""
    headers: dict[str, str] = {}
    """The headers."""
    body: str = ""
    """The body."""


class Scenario(Options, frozen=True):
    """What the finished program must do, seen from outside: the table `[[proof.scenarios]]`."""

    name: str = ""
    """How people call it; the command or the request if unset."""
    task: str | None = None
    """The task whose work it shows, by key or pattern; the last task if unset. Later tasks must keep it."""
    run: Argv | None = None
    """The command to run."""
    exit_code: int | None = None
    """The exit code of the command; 0 if unset."""
    stdout: str | None = None
    """All that the command prints, without space around it."""
    contains: Texts = Texts()
    """What the output of the command, or the body of the answer, contains: text, or a list of texts."""
    start: Argv | None = None
    """The program that answers the request."""
    request: RequestOptions | None = None
    """The request."""
    status: int | None = None
    """The status of the answer; 200 if unset."""
    json: Any = None
    """What the body of the answer says as JSON; of objects, the keys that are named."""

    def __post_init__(self) -> None:
        if (self.run is None) == (self.request is None):
            raise OptionError("", "a scenario has either `run`, a command, or `start` and `request`")
        if self.request is not None and self.start is None:
            raise OptionError("start", "it is missing: the program that answers the request")
        for name in _OF_REQUESTS if self.run is not None else _OF_COMMANDS:
            if getattr(self, name) is not None:
                raise OptionError(
                    name, f"it does not go with `{'run' if self.run is not None else 'request'}`"
                )

    @property
    def title(self) -> str:
        """Its name, or what it does."""
        if self.name or self.request is None:
            return self.name or shlex.join(self.run or ())
        return f"{self.request.method} {self.request.path}"

    @property
    def command(self) -> str:
        """How it is called among the checks."""
        return f"scenario: {self.title}"


def scenarios_in(text: str) -> tuple[Scenario, ...]:
    """Return the scenarios in a task's text, each a code block marked `scenario`; raises OptionError."""
    if "scenario" not in text:  # which is found much sooner in a text of many megabytes
        return ()
    return tuple(_read(*found.group(1, 3)) for found in _FENCE.finditer(text))


def _read(indent: str, body: str) -> Scenario:
    import tomllib

    lines = [line.removeprefix(indent) for line in body.split("\n")]
    try:
        table = tomllib.loads(textwrap.dedent("\n".join(lines)))
    except tomllib.TOMLDecodeError as error:
        raise OptionError("", f"this is not TOML: {error}") from None
    if "task" in table:
        raise OptionError("task", "a scenario in a task's text belongs to that task")
    return read_options(Scenario, table)
