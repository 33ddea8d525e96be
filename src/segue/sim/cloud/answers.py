"""The API's refusals: statuses, codes, and the four shapes of error bodies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from starlette.responses import JSONResponse, Response

ErrorShape = Literal["nested", "flat", "text", "overview"]


@dataclass(frozen=True, slots=True)
class CloudErrorKind:
    """One error code: its HTTP status, its text, and the shape of its body."""

    status: int
    message: str
    shape: ErrorShape = "nested"
    extra: Mapping[str, str] = field(default_factory=dict)


ERROR_KINDS = {
    "unauthorized": CloudErrorKind(401, "Missing or malformed API key."),
    "api_key_not_found": CloudErrorKind(401, "API key not found."),
    "plan_required": CloudErrorKind(403, "Cloud agents need a paid plan."),
    "role_forbidden": CloudErrorKind(403, "Your role does not allow this."),
    "feature_unavailable": CloudErrorKind(403, "This feature is not available for your team."),
    "integration_not_connected": CloudErrorKind(
        403,
        "GitHub is not connected.",
        extra={"helpUrl": "https://cursor.com/dashboard?tab=integrations", "provider": "github"},
    ),
    "validation_error": CloudErrorKind(400, "Invalid request."),
    "missing_body": CloudErrorKind(400, "Request body is required."),
    "invalid_last_event_id": CloudErrorKind(400, "Last-Event-ID does not belong to this stream."),
    "agent_not_found": CloudErrorKind(404, "Agent not found."),
    "run_not_found": CloudErrorKind(404, "Run not found."),
    "artifact_not_found": CloudErrorKind(404, "Artifact not found."),
    "not_found": CloudErrorKind(404, "Not found."),
    "agent_busy": CloudErrorKind(409, "Agent already has an active run"),
    "agent_archived": CloudErrorKind(409, "Agent is archived. Unarchive it first."),
    "agent_deleted": CloudErrorKind(409, "Agent was deleted."),
    "agent_id_conflict": CloudErrorKind(409, "An agent with this agentId already exists."),
    "run_not_cancellable": CloudErrorKind(409, "Run is already in a terminal state."),
    "stream_expired": CloudErrorKind(410, "The stream is no longer retained."),
    "rate_limit_exceeded": CloudErrorKind(429, "Rate limit exceeded."),
    "internal": CloudErrorKind(500, "Error", "flat"),
    "internal_error": CloudErrorKind(500, "Internal error."),
    "upstream_error": CloudErrorKind(502, "An upstream service failed."),
    "stream_unavailable": CloudErrorKind(503, "The stream is not available right now."),
}
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
