"""What the API takes and refuses: the bodies of requests, and the errors in their four shapes."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct, field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from segue.sim.script import read_words

ErrorShape = Literal["nested", "flat", "text", "overview"]


class CloudErrorKind(Struct, frozen=True):
    """One error code: its HTTP status, its text, and the shape of its body."""

    status: int
    message: str
    shape: ErrorShape = "nested"
    extra: Mapping[str, str] = {}


WORDS = read_words(__file__)
ERROR_KINDS = {code: CloudErrorKind(**facts) for code, facts in WORDS["errors"].items()}
"""Every error code this API is known to use, and three of ours for errors without a published code."""


class CloudRefusal(Exception):
    """An answer that is an error."""

    def __init__(
        self,
        code: str,
        message: str = "",
        *,
        status: int = 0,
        shape: ErrorShape | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        kind = ERROR_KINDS.get(code, CloudErrorKind(500, code))
        super().__init__(message or kind.message)
        self.code = code
        self.message = message or kind.message
        self.status = status or kind.status
        self.shape = shape or kind.shape
        self.extra = kind.extra
        self.headers = dict(headers or {})

    def response(self) -> Response:
        """Build the HTTP answer."""
        return JSONResponse(self.body(), self.status, self.headers)

    def body(self) -> dict[str, Any]:
        """Build the error in its shape."""
        match self.shape:
            case "flat":
                return {"code": self.code, "message": self.message}
            case "text":
                return {"error": self.message}
            case "overview":
                return {"error": _TITLES.get(self.status, "Error"), "message": self.message}
            case _:
                return {"error": {"code": self.code, "message": self.message, **self.extra}}


_TITLES = {401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 429: "Too Many Requests"}


Url = Annotated[str, Meta(pattern=r"^https?://[^/\s]+/\S+")]
_AGENT_ID = r"^bc-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
_IMAGES = {"image/png", "image/jpeg", "image/gif", "image/webp"}
_IMAGE_MAX = 15 * 1024 * 1024


class ImageBody(Struct, rename="camel"):
    """A picture beside a prompt."""

    data: str | None = None
    mime_type: str | None = None
    url: str | None = None

    def __post_init__(self) -> None:
        if (self.data is None) == (self.url is None):
            raise ValueError("give either data or url")
        if self.mime_type is not None and self.mime_type not in _IMAGES:
            raise ValueError(f"{self.mime_type} is not supported")
        if self.data is not None and len(base64.b64decode(self.data)) > _IMAGE_MAX:
            raise ValueError("images may have 15 MB")


class PromptBody(Struct):
    """A prompt with its pictures."""

    text: Annotated[str, Meta(min_length=1)]
    images: Annotated[list[ImageBody], Meta(max_length=5)] = []


class ModelParameter(Struct):
    """A parameter of a model."""

    id: str
    value: str


class ModelBody(Struct):
    """The model to use; never a bare string."""

    id: str
    params: list[ModelParameter] = []


class RepositoryBody(Struct, rename="camel"):
    """A repository to work in."""

    url: Url
    starting_ref: str | None = None
    pr_url: str | None = None


class EnvironmentBody(Struct):
    """The machine on which the agent runs."""

    type: Literal["cloud", "pool", "machine"]
    name: str | None = None


class NamedItem(Struct):
    """An item of which only the name matters here."""

    name: str


class CreateRunBody(Struct, rename="camel"):
    """`POST /v1/agents/{id}/runs`."""

    prompt: PromptBody
    mcp_servers: Annotated[list[NamedItem], Meta(max_length=50)] = []
    mode: Literal["agent", "plan"] = "agent"
    model: ModelBody | None = None
    env_vars: dict[str, str] = {}

    def __post_init__(self) -> None:
        _check_variables(self.env_vars)


class CreateAgentBody(CreateRunBody, rename="camel"):
    """`POST /v1/agents`: what a run needs, and what an agent needs besides."""

    name: Annotated[str, Meta(max_length=100)] | None = None
    repos: Annotated[list[RepositoryBody], Meta(max_length=20)] = []
    env: EnvironmentBody | None = None
    work_on_current_branch: bool = False
    auto_create_pr: bool = field(default=False, name="autoCreatePR")
    skip_reviewer_request: bool = False
    open_as_cursor_github_app: bool = False
    custom_subagents: Annotated[list[NamedItem], Meta(max_length=20)] = []
    agent_id: Annotated[str, Meta(pattern=_AGENT_ID)] | None = None
    metadata: dict[str, str] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.env_vars and self.agent_id:
            raise ValueError("envVars cannot be combined with agentId")
        if self.env and self.env.type == "cloud" and self.env.name and self.repos:
            raise ValueError("a named cloud environment excludes repos")


class SourceBodyV0(Struct, rename="camel"):
    """v0: where to work."""

    repository: Url | None = None
    pr_url: str | None = None
    ref: str | None = None

    def __post_init__(self) -> None:
        if not self.repository and not self.pr_url:
            raise ValueError("repository or prUrl is required")


class TargetBodyV0(Struct, rename="camel"):
    """v0: what becomes of the work."""

    auto_create_pr: bool = False
    open_as_cursor_github_app: bool = False
    skip_reviewer_request: bool = False
    branch_name: str | None = None
    auto_branch: bool = True


class WebhookBodyV0(Struct):
    """v0: who is notified."""

    url: Annotated[str, Meta(max_length=2048, pattern=r"^https?://")]
    secret: Annotated[str, Meta(min_length=32, max_length=256)] | None = None


class LaunchBodyV0(Struct):
    """`POST /v0/agents`."""

    prompt: PromptBody
    source: SourceBodyV0
    model: str | None = None
    target: TargetBodyV0 = field(default_factory=TargetBodyV0)
    webhook: WebhookBodyV0 | None = None


class FollowupBodyV0(Struct):
    """`POST /v0/agents/{id}/followup`."""

    prompt: PromptBody


_Body = TypeVar("_Body")
_TYPES = {"str": "string", "bool": "boolean", "int": "number", "float": "number"}
"""msgspec's names of types, and the vendor's where they differ."""
_WORDS = {
    r"Expected `str` matching regex .*bc-.*": "must look like bc-<uuid>",
    r"Expected `str` matching regex .*": "Invalid url",
    r"Expected `str` of length >= (\d+)": r"String must contain at least \1 character(s)",
    r"Expected `str` of length <= (\d+)": r"String must contain at most \1 character(s)",
    r"Expected `array` of length <= (\d+)": r"Array must contain at most \1 element(s)",
}
"""msgspec's messages, and the vendor's."""


async def read_body(request: Request, kind: type[_Body]) -> _Body:
    """Read the body of a request; raises a CloudRefusal in the API's own words."""
    raw = await request.body()
    if not raw:
        raise CloudRefusal("missing_body")
    try:
        return msgspec.convert(json.loads(raw), kind)
    except msgspec.ValidationError as error:
        raise CloudRefusal("validation_error", _explain(str(error))) from None
    except ValueError:
        raise CloudRefusal("validation_error", "Request body is not valid JSON") from None


def _explain(error: str) -> str:
    """Word a validation error as the vendor does."""
    message, _, path = error.partition(" - at `$")
    place = re.sub(r"\[(\d+)\]", r".\1", path.rstrip("`")).lstrip(".")
    if missing := re.match(r"Object missing required field `(\w+)`", message):
        return f"{place}.{missing[1]}: Required".lstrip(".")
    if wrong := re.fullmatch(r"Expected `(\w+).*`, got `(\w+)`", message):
        expected, received = (_TYPES.get(name, name) for name in wrong.groups())
        message = f"Expected {expected}, received {received}"
    for pattern, words in _WORDS.items():
        message = re.sub(pattern, words, message)
    return f"{place or 'body'}: {message}"


def _check_variables(values: dict[str, Any]) -> None:
    if len(values) > 50:
        raise ValueError("envVars: at most 50 variables")
    for name, value in values.items():
        if not name or len(name.encode()) > 255 or name.startswith("CURSOR_"):
            raise ValueError(f"envVars: {name[:40]!r} cannot be the name of a variable")
        if len(value.encode()) > 4096:
            raise ValueError(f"envVars: the value of {name} is too long")
