"""The table `[github]`: how Segue reads issues, and what it tells their readers."""

from __future__ import annotations

from segue.domain.options import Options, WebAddress


class GithubSettings(Options, frozen=True):
    """The table `[github]`."""

    api_url: WebAddress | None = None
    """The address of the API, such as `https://github.example.com/api/v3`; if unset, `GITHUB_API_URL` or
    github.com's."""
    comments: bool = True
    """Comment on an issue when work on it starts, needs a person, or is done."""
    labels: bool = True
    """Label an issue `segue:working`, `segue:needs-person` or `segue:done`."""
    close: bool = False
    """Close an issue when its task is done; else a pull request or a person does."""
