"""The bodies of requests, checked as the API checks them."""

from __future__ import annotations

import base64
import json
import re
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from starlette.requests import Request

from segue.sim.cloud.answers import Refusal

AGENT_ID = re.compile(r"bc-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_IMAGES = {"image/png", "image/jpeg", "image/gif", "image/webp"}
_IMAGE_MAX = 15 * 1024 * 1024


class _Part(BaseModel):
    model_config = ConfigDict(strict=True)


def _with_scheme(url: str) -> str:
    if not re.match(r"https?://[^/\s]+/\S+", url):
        raise ValueError("Invalid url")
    return url


def _minted(agent_id: str) -> str:
    if not AGENT_ID.fullmatch(agent_id):
        raise ValueError("agentId must look like bc-<uuid>")
    return agent_id


def _env_vars(values: dict[str, str]) -> dict[str, str]:
    if len(values) > 50:
        raise ValueError("at most 50 variables")
    for name, value in values.items():
        if not name or len(name.encode()) > 255 or name.startswith("CURSOR_"):
            raise ValueError(f"{name[:40]!r} is no name for a variable")
        if len(value.encode()) > 4096:
            raise ValueError(f"the value of {name} is too long")
    return values


Url = Annotated[str, AfterValidator(_with_scheme)]
EnvVars = Annotated[dict[str, str], AfterValidator(_env_vars)]


class Image(_Part):
    """A picture beside a prompt."""

    data: str | None = None
    mimeType: str | None = None  # noqa: N815 - the API's name
    url: str | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if (self.data is None) == (self.url is None):
            raise ValueError("give either data or url")
        if self.mimeType is not None and self.mimeType not in _IMAGES:
            raise ValueError(f"{self.mimeType} is not supported")
        if self.data is not None and len(base64.b64decode(self.data)) > _IMAGE_MAX:
            raise ValueError("images may have 15 MB")
        return self


class Asked(_Part):
    """What is asked."""

    text: str = Field(min_length=1)
    images: list[Image] = Field(default=[], max_length=5)


class Parameter(_Part):
    """A parameter of a model."""

    id: str
    value: str


class Model(_Part):
    """The model that is wanted; never a bare string."""

    id: str
    params: list[Parameter] = []


class Repo(_Part):
    """A repository to work in."""

    url: Url
    startingRef: str | None = None  # noqa: N815
    prUrl: str | None = None  # noqa: N815


class Env(_Part):
    """Where the agent runs."""

    type: Literal["cloud", "pool", "machine"]
    name: str | None = None


class Named(_Part):
    """Something that has a name, whose other fields nobody needs here."""

    name: str


class CreateRun(_Part):
    """`POST /v1/agents/{id}/runs`."""

    prompt: Asked
    mcpServers: list[Named] = Field(default=[], max_length=50)  # noqa: N815
    mode: Literal["agent", "plan"] = "agent"
    model: Model | None = None
    envVars: EnvVars = {}  # noqa: N815


class CreateAgent(CreateRun):
    """`POST /v1/agents`."""

    name: str | None = Field(default=None, max_length=100)
    repos: list[Repo] = Field(default=[], max_length=20)
    env: Env | None = None
    workOnCurrentBranch: bool = False  # noqa: N815
    autoCreatePR: bool = False  # noqa: N815
    skipReviewerRequest: bool = False  # noqa: N815
    openAsCursorGithubApp: bool = False  # noqa: N815
    customSubagents: list[Named] = Field(default=[], max_length=20)  # noqa: N815
    agentId: Annotated[str, AfterValidator(_minted)] | None = None  # noqa: N815
    metadata: dict[str, str] | None = None

    @model_validator(mode="after")
    def _together(self) -> Self:
        if self.envVars and self.agentId:
            raise ValueError("envVars cannot be combined with agentId")
        if self.env and self.env.type == "cloud" and self.env.name and self.repos:
            raise ValueError("a named cloud environment excludes repos")
        return self


class Source(_Part):
    """v0: where to work."""

    repository: Url | None = None
    prUrl: str | None = None  # noqa: N815
    ref: str | None = None

    @model_validator(mode="after")
    def _somewhere(self) -> Self:
        if not self.repository and not self.prUrl:
            raise ValueError("repository or prUrl is required")
        return self


class Target(_Part):
    """v0: what becomes of the work."""

    autoCreatePr: bool = False  # noqa: N815
    openAsCursorGithubApp: bool = False  # noqa: N815
    skipReviewerRequest: bool = False  # noqa: N815
    branchName: str | None = None  # noqa: N815
    autoBranch: bool = True  # noqa: N815


class Hook(_Part):
    """v0: who is told."""

    url: str = Field(max_length=2048, pattern=r"^https?://")
    secret: str | None = Field(default=None, min_length=32, max_length=256)


class Launch(_Part):
    """`POST /v0/agents`."""

    prompt: Asked
    model: str | None = None
    source: Source
    target: Target = Target()
    webhook: Hook | None = None


class Followup(_Part):
    """`POST /v0/agents/{id}/followup`."""

    prompt: Asked


_Body = TypeVar("_Body", bound=BaseModel)
_SHAPES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "number", float: "number"}
_WANTED = {
    "model_type": "object",
    "dict_type": "object",
    "list_type": "array",
    "string_type": "string",
    "bool_type": "boolean",
}


async def read(request: Request, model: type[_Body]) -> _Body:
    """The body of a request; raises a Refusal in the API's own words."""
    raw = await request.body()
    if not raw:
        raise Refusal("missing_body")
    try:
        return model.model_validate(json.loads(raw))
    except ValidationError as error:
        raise Refusal("validation_error", _words(error)) from None
    except ValueError:
        raise Refusal("validation_error", "Request body is not valid JSON") from None


def _words(error: ValidationError) -> str:
    """The first problem, as the vendor's validator words it."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"]) or "body"
    if first["type"] == "missing":
        return f"{where}: Required"
    if first["type"] in _WANTED:
        got = _shape(first["input"])
        return f"{where}: Expected {_WANTED[first['type']]}, received {got}"
    return f"{where}: {first['msg'].removeprefix('Value error, ')}"


def _shape(value: Any) -> str:
    return "null" if value is None else _SHAPES.get(type(value), "unknown")
