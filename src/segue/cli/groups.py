"""Groups of commands to which parts may add."""

from __future__ import annotations

import click

from segue.domain.installed import built_in_parts, find_command, import_name


class OpenGroup(click.Group):
    """A group such as `segue db`: the command `db supabase` of a part is listed and called in it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the group's own commands and of those that parts add, sorted."""
        names = [name for part in built_in_parts() for name in part.commands]
        added = [name.partition(" ")[2] for name in names if name.startswith(f"{self.name} ")]
        return sorted([*super().list_commands(ctx), *added])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; raises UsageError for one of a part that is not installed."""
        if (own := super().get_command(ctx, cmd_name)) is not None:
            return own
        found = find_command(f"{self.name} {cmd_name}")
        command: click.Command | None = import_name(found.where) if found else None
        return command
