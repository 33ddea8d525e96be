"""The script of the search simulator: which query finds what, and what goes wrong."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from segue.sim.http.script import compiles

Api = Literal["searxng", "brave", "tavily"]
Fault = Literal["down", "rate_limited", "bad_key", "junk", "html", "cut", "no_json", "used_up", "silent"]

FAULTS: dict[str, str] = {
    "down": "503, or the `status` of the entry",
    "rate_limited": "429 as the service words it; `headers` may hold retry-after",
    "bad_key": "the service rejects the key",
    "junk": "200 with JSON of another shape",
    "html": "200 with a page for people",
    "cut": "the connection is closed in the middle of the answer",
    "no_json": "SearXNG alone: 403, as an instance without the format answers",
    "used_up": "Tavily alone: 432, the plan's limit",
    "silent": "SearXNG alone: no results, and the engines that did not answer",
}


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Result(_Part):
    """One thing that is found."""

    title: str
    url: str
    text: str = ""


class Entry(_Part):
    """One answer: when it applies, what is found, and what goes wrong."""

    match: str = Field(default="", description="a regular expression found in the query")
    api: Api | None = Field(default=None, description="only `searxng`, `brave` or `tavily`")
    times: int = Field(default=0, description="the entry serves so many searches; 0: any number")
    results: list[Result] = Field(default=[], description="what is found: `title`, `url`, `text`")
    fault: Fault | None = Field(default=None, description="what goes wrong")
    status: int = Field(default=503, description="the HTTP status of the fault `down`")
    headers: dict[str, str] = Field(default={}, description="headers of the answer, such as retry-after")
    delay: float = Field(default=0.0, description="seconds before the answer")

    @field_validator("match")
    @classmethod
    def _compiles(cls, value: str) -> str:
        return compiles(value)


class Script(_Part):
    """Everything the simulator can be told; a bare list is taken for its entries."""

    on: list[Entry] = Field(
        default=[], description="the answers; the first that fits and is not used up is given"
    )

    @model_validator(mode="before")
    @classmethod
    def _from_list(cls, value: Any) -> Any:
        return {"on": value} if isinstance(value, list) else value


@dataclass(slots=True)
class Entries:
    """The entries and how often each was used."""

    entries: list[Entry]
    _used: dict[int, int] = field(default_factory=dict)

    def pick(self, api: Api, query: str) -> Entry:
        """The first entry that fits and is not used up; one page about the query when none does."""
        for index, entry in enumerate(self.entries):
            used = self._used.get(index, 0)
            if (
                entry.api in (None, api)
                and re.search(entry.match, query)
                and used < (entry.times or used + 1)
            ):
                self._used[index] = used + 1
                return entry
        return Entry(results=[Result(title=query, url="https://example.com/", text=f"About {query}.")])
