"""A stand-in for GitLab's API: merge requests on bare repositories, discussions, pipelines and their jobs."""
