"""The profiles `[profiles.NAME]`: small topologies of models, checked before anything is asked."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from segue.domain.errors import UsageError

PREFIX = "composite/profile/"
"""What stands before the name of a profile when it is used as a model."""

Node = Annotated[str, Field(min_length=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Single(_Strict):
    """One model under a name of its own."""

    kind: Literal["single"]
    model: Node = Field(description="The model that answers.")

    def nodes(self) -> tuple[str, ...]:
        """The models it is made of."""
        return (self.model,)


class Fallback(_Strict):
    """The first model that answers."""

    kind: Literal["fallback"]
    models: tuple[Node, ...] = Field(min_length=1, description="The models, in the order they are tried.")

    def nodes(self) -> tuple[str, ...]:
        """The models it is made of."""
        return self.models


class FanOut(_Strict):
    """All models at once; a judge or the majority decides whose answer counts."""

    kind: Literal["fan_out"]
    models: tuple[Node, ...] = Field(min_length=2, description="The models that answer at the same time.")
    judge: Node | None = Field(
        default=None, description="The model that chooses among the answers; unset, the most frequent wins."
    )

    def nodes(self) -> tuple[str, ...]:
        """The models it is made of."""
        return (*self.models, self.judge) if self.judge else self.models


class Revise(_Strict):
    """A draft, its critique and a better answer."""

    kind: Literal["revise"]
    draft: Node = Field(description="The model that answers first.")
    critique: Node = Field(description="The model that criticises the answer.")
    revise: Node | None = Field(
        default=None, description="The model that writes the answer again; the one of the draft if unset."
    )
    rounds: int = Field(default=1, ge=1, le=5, description="How often the answer is criticised and revised.")

    def nodes(self) -> tuple[str, ...]:
        """The models it is made of."""
        return (self.draft, self.critique, self.revise or self.draft)


Profile: TypeAlias = Single | Fallback | FanOut | Revise
KINDS: tuple[type[BaseModel], ...] = (Single, Fallback, FanOut, Revise)

_ADAPTER: TypeAdapter[Profile] = TypeAdapter(Annotated[Profile, Field(discriminator="kind")])


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
        return _ADAPTER.validate_python(dict(table))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(["profiles", name, *(str(part) for part in first["loc"][1:])])
        raise UsageError(f"{place}: {first['msg']}", hint="See docs/litellm.md") from None


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
