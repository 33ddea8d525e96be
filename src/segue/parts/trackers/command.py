"""`segue sim gitlab`: simulate GitLab."""

from segue.parts.sim.command import service_command

gitlab = service_command(
    "gitlab",
    """Simulate GitLab's API for merge requests on loopback until Ctrl-C.

Name its address with `/api/v4` as `api` in `[deliveries.pr]`. See `segue help simulators`.

\b
Examples:
  segue sim gitlab --repo me/app=/tmp/app.git
""",
    "segue.parts.trackers.gitlab_sim.app:gitlab_app",
    "segue.parts.trackers.gitlab_sim.script:GitlabScript",
    ("NAME", "GROUP/NAME"),
)
