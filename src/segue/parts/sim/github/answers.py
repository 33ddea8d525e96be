"""What handlers share: who asks, what they may do, refusals, and pages of lists."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import urlencode

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from segue.parts.sim.github.hub import Hub, HubRepo
from segue.parts.sim.github.objects import HubIssue
from segue.parts.sim.github.script import Permission
from segue.parts.sim.github.shown import Presenter

T = TypeVar("T")

REPO = "/repos/{owner}/{repo}"
"""How the paths of a repository begin."""

_DOCS = "https://docs.github.com/rest"
_PAGE = 30
_LARGEST_PAGE = 100


class GithubRefusal(Exception):
    """An answer that is an error."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        errors: Sequence[Any] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.errors = list(errors)
        self.headers = dict(headers or {})

    def response(self) -> Response:
        """Build the HTTP answer."""
        body = {"message": self.message, "documentation_url": _DOCS, "status": str(self.status)}
        return JSONResponse(
            {**body, **({"errors": self.errors} if self.errors else {})}, self.status, self.headers
        )


class GithubCaller(Struct, frozen=True):
    """Who sends a request."""

    login: str
    permissions: Mapping[str, Permission] | None
    repos: Sequence[str] | None

    def may(self, what: str, level: Permission) -> bool:
        """Return whether the token has a permission."""
        if self.permissions is None:
            return True
        has = self.permissions.get(what)
        return has == "write" or has == level

    def sees(self, repo: HubRepo) -> bool:
        """Return whether the token can see a repository."""
        if not repo.private:
            return self.repos is None or repo.full_name in self.repos
        return self.repos is not None and repo.full_name in self.repos


class Exchange(Struct, frozen=True):
    """One request to the API: the simulator, the request, and who sends it."""

    hub: Hub
    request: Request
    caller: GithubCaller
    show: Presenter
    body: Any

    @property
    def login(self) -> str:
        """The user who sends it."""
        return self.caller.login

    def param(self, name: str, default: str = "") -> str:
        """Return a parameter of the query."""
        return self.request.query_params.get(name, default)

    def number(self, name: str) -> int:
        """Return a number in the path."""
        return int(self.request.path_params[name])

    def repo(self, what: str = "metadata") -> HubRepo:
        """Return the repository in the path; raises a 404 where it cannot be seen.

        `what` is the permission that the request needs: to read with GET, to write with anything else.
        """
        level: Permission = "read" if self.request.method == "GET" else "write"
        path = self.request.path_params
        repo = self.hub.repos.get(f"{path['owner']}/{path['repo']}".lower())
        if repo is None or not self.caller.sees(repo):
            raise GithubRefusal(404, "Not Found")
        if what != "metadata" and not self.caller.may(what, level):
            wanted = {"x-accepted-github-permissions": f"{what}={level}"}
            # A token that cannot read something must not learn that it exists.
            if level == "read":
                raise GithubRefusal(404, "Not Found", headers=wanted)
            raise GithubRefusal(403, "Resource not accessible by personal access token", headers=wanted)
        return repo

    def issue(self, repo: HubRepo, name: str = "number") -> HubIssue:
        """Return the issue in the path."""
        issue = repo.issues.get(self.number(name))
        return pick([issue] if issue else [])

    def table(self) -> Mapping[str, Any]:
        """Return the body, which must be an object."""
        if not isinstance(self.body, dict):
            raise GithubRefusal(400, "Problems parsing JSON")
        return self.body

    def text(self, name: str, resource: str) -> str:
        """Return a text that the body must have."""
        value = self.table().get(name)
        if not isinstance(value, str) or not value.strip():
            raise invalid(resource, "missing_field", field=name)
        return value

    def page(self, items: Iterable[Any], name: str = "", **facts: Any) -> Response:
        """Answer with one page of a list, and links to the others; with a name, in a table with facts."""
        whole = list(items)
        size = _bounded(self.param("per_page"), _PAGE, _LARGEST_PAGE)
        page = _bounded(self.param("page"), 1, 10_000)
        last = max(1, -(-len(whole) // size))
        part = whole[(page - 1) * size : page * size]
        links = []
        if page < last:
            links += [("next", page + 1), ("last", last)]
        if page > 1:
            links += [("prev", page - 1), ("first", 1)]
        header = ", ".join(f'<{self._page_url(number)}>; rel="{name}"' for name, number in links)
        body = {"total_count": len(whole), **facts, name: part} if name else part
        return JSONResponse(body, headers={"link": header} if header else {})

    def _page_url(self, page: int) -> str:
        path = self.request.scope["segue.path"]
        repo = self.request.path_params.get("repo")
        if repo:  # lists of a repository are linked by its id, as GitHub does
            known = self.hub.repos.get(f"{self.request.path_params['owner']}/{repo}".lower())
            rest = path.split("/", 4)[4] if path.startswith("/repos/") else path.split("/", 3)[3]
            path = f"/repositories/{known.id}/{rest}" if known else path
        query = {**dict(self.request.query_params), "page": str(page)}
        return f"{self.show.api}{path}?{urlencode(query)}"


Handler = Callable[[Exchange], Awaitable[Response]]


def _bounded(text: str, default: int, most: int) -> int:
    return min(max(int(text), 1), most) if text.isdecimal() else default


def pick(found: Iterable[T]) -> T:
    """Return the first of what was found; raises a 404 if that is nothing."""
    for one in found:
        return one
    raise GithubRefusal(404, "Not Found")


def invalid(resource: str, code: str, **facts: str) -> GithubRefusal:
    """Return the refusal of a body that has something wrong in it."""
    return GithubRefusal(422, "Validation Failed", errors=[{"resource": resource, "code": code, **facts}])


def created(body: Any, location: str = "") -> Response:
    """Answer 201."""
    return JSONResponse(body, 201, headers={"location": location} if location else {})


def parse_body(body: bytes) -> Any:
    """Return the JSON of a request; raises a 400 if it is not JSON."""
    if not body:
        return {}
    try:
        return json.loads(body)
    except ValueError:
        raise GithubRefusal(400, "Problems parsing JSON") from None
