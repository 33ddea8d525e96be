"""The profiles `[profiles.NAME]`: small topologies of models, checked before anything is asked."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, TypeAlias

from msgspec import Meta

from segue.domain.errors import UsageError
from segue.domain.options import OptionError, Options, Text, read_options

PREFIX = "composite/profile/"
"""The prefix of a profile's name when it is used as a model."""


class Single(Options, frozen=True, tag_field="kind", tag="single"):
    """One model under a name of its own."""

    model: Text
    """The model that answers."""

    def nodes(self) -> tuple[str, ...]:
        """Return the models it is made of."""
        return (self.model,)


class Fallback(Options, frozen=True, tag_field="kind", tag="fallback"):
    """The first model that answers."""

    models: Annotated[tuple[Text, ...], Meta(min_length=1)]
    """The models, in the order they are tried."""

    def nodes(self) -> tuple[str, ...]:
        """Return the models it is made of."""
        return self.models


class FanOut(Options, frozen=True, tag_field="kind", tag="fan_out"):
    """All models at once; a judge or the majority decides which answer counts."""

    models: Annotated[tuple[Text, ...], Meta(min_length=2)]
    """The models that answer at the same time."""
    judge: Text | None = None
    """The model that picks an answer; if unset, the most frequent wins."""

    def nodes(self) -> tuple[str, ...]:
        """Return the models it is made of."""
        return (*self.models, self.judge) if self.judge else self.models


class Revise(Options, frozen=True, tag_field="kind", tag="revise"):
    """A draft, its critique and a better answer."""

    draft: Text
    """The model that answers first."""
    critique: Text
    """The model that criticises the answer."""
    revise: Text | None = None
    """The model that rewrites the answer; that of the draft if unset."""
    rounds: Annotated[int, Meta(ge=1, le=5)] = 1
    """How often the answer is criticised and revised."""

    def nodes(self) -> tuple[str, ...]:
        """Return the models it is made of."""
        return (self.draft, self.critique, self.revise or self.draft)


Profile: TypeAlias = Single | Fallback | FanOut | Revise
KINDS: tuple[type[Options], ...] = (Single, Fallback, FanOut, Revise)


def read_profiles(
    tables: Mapping[str, Mapping[str, Any]], depth: int, aliases: Mapping[str, str] = MappingProxyType({})
) -> dict[str, Profile]:
    """The profiles; raises UsageError for wrong options, cycles, unknown profiles and too deep nesting.

    `aliases` are the user's own names: a circle may lead through them, too.
    """
    profiles = {name: _read(name, table) for name, table in tables.items()}
    for name in profiles:
        _descend(name, profiles, aliases, (), depth)
    return profiles


def _read(name: str, table: Mapping[str, Any]) -> Profile:
    try:
        return read_options(Profile, table)  # type: ignore[arg-type]
    except OptionError as error:
        place = ".".join(filter(None, ("profiles", name, error.path)))
        raise UsageError(f"{place}: {error.message}", hint="See docs/litellm.md") from None


def _descend(
    name: str, profiles: Mapping[str, Profile], aliases: Mapping[str, str], above: tuple[str, ...], depth: int
) -> None:
    path = (*above, name)
    if name in above:
        raise UsageError(f"Profiles use each other in a circle: {' → '.join(path)}.")
    if name not in profiles:
        raise UsageError(
            f"profiles.{above[-1]} uses the profile {name!r}, which does not exist.",
            hint=f"Known profiles: {', '.join(sorted(profiles))}",
        )
    if len(path) > depth:
        raise UsageError(
            f"Profiles are nested deeper than {depth}: {' → '.join(path)}.",
            hint="Make them flatter, or raise provider.depth",
        )
    for node in profiles[name].nodes():
        model = aliases.get(node, node)
        if model.startswith(PREFIX):
            _descend(model.removeprefix(PREFIX), profiles, aliases, path, depth)
