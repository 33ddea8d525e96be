"""What a part is: a feature with a folder of its own, which the core runs without and never imports.

A part describes itself in one `Part`, in texts such as `"package.module:name"`, so that nothing of it is
imported before it is used. Named tuples, because `segue --help` reads them and imports no msgspec.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class PartCommand(NamedTuple):
    """A command that a part adds to `segue`."""

    where: str
    """Its module and function, a click command."""
    heading: str
    """The group of `segue --help` that lists it."""
    help: str
    """Its line there."""


class PartTable(NamedTuple):
    """A table that a part adds to the settings."""

    where: str
    """Its module and type: a class of `Options`, or a dict whose keys are names."""
    meaning: str
    """What it may do, as `segue trust` says it: "serves agents as models"."""
    harmless: tuple[str, ...] = ()
    """Its settings that take effect without trust."""
    confined: tuple[str, ...] = ()
    """Its settings that have no effect outside of a run: whoever submits one to a fleet may choose them."""
    paths: tuple[str, ...] = ()
    """Its settings that name a file, relative to the configuration file that sets them."""
    agents: tuple[str, ...] = ()
    """Its settings that name agents."""
    personal: bool = False
    """Whether it belongs into the user's own file: `segue init` leaves it out."""
    named: bool = False
    """Whether its keys are names: an environment variable spells their dashes as underscores."""


class PartFiles(NamedTuple):
    """The files of a source that a part brings."""

    named: tuple[str, ...]
    """Patterns: a path that ends in one of them certainly means this source; `*` stands for folders too."""
    usual: str
    """Where it is in a repository."""


class Part(NamedTuple):
    """All that belongs to a part. Packages register theirs in the entry-point group `segue.parts`."""

    name: str
    summary: str
    """What it is for, in one line."""
    commands: Mapping[str, PartCommand] = {}
    tables: Mapping[str, PartTable] = {}
    events: Mapping[str, str] = {}
    """The kinds of events that it stores, by name, each with the module and class that describe it."""
    sockets: Mapping[str, Mapping[str, str]] = {}
    """Socket → name → module and class of the variants that it brings, such as agents.

    Beside the sockets of plug-ins there are `examiners` of whole projects, `questions` that wait on the page,
    `scenes` of the demo, `forecasts` of a run, what `continues` a run of a kind that has no tasks,
    `observers` of runs by the table that asks for them, `hostings` of pull requests, `stand-ins` for tools,
    what to do with runs that were `submitted` to other machines and which of those are `stuck`, and the
    `suites` that variants pass, what tests tasks together (`combining`), and
    what compares old code with new (`comparing`), and the server that gives agents over ACP a `way-out`."""
    files: Mapping[str, PartFiles] = {}
    """The files of its sources, by the name of the source."""
    pages: tuple[str, ...] = ()
    """Modules with pages and actions of `segue serve`: see `segue/web/routes.py`. Their templates are beside
    them in `templates`, and in its `page.css` what they add to the style sheet."""
    needs: tuple[str, ...] = ()
    """Other parts that it imports."""
    extras: tuple[str, ...] = ()
    """Extras of the package with what only this part needs."""
    topics: tuple[str, ...] = ()
    """Pages of the documentation: `segue help TOPIC`."""
