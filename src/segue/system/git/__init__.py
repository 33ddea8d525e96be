"""Git repositories, branches and worktrees."""
