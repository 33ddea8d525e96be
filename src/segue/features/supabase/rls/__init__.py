"""The row level security check: whether one user of a Supabase project can reach another's rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from segue.features.supabase.rls.options import RlsOptions
    from segue.features.supabase.rls.report import RlsReport


async def examine(project: Path, options: RlsOptions, folder: Path) -> RlsReport | None:
    """Check a project; None when it has no Supabase migrations, or the check is switched off.

    `folder` is where a throw-away server may keep its files while it is needed.
    """
    # The settings import this package; what the check needs comes with its first use.
    from segue.features.supabase.rls.options import FOLDER
    from segue.features.supabase.rls.report import RlsReport
    from segue.system.extras import install_line

    if options.enabled == "off" or not (project / FOLDER).is_dir():
        return None
    try:
        from segue.features.supabase.rls.check import examine_in_thread
    except ImportError:
        return RlsReport(
            not_run="the driver for Postgres is not installed",
            hint=install_line("supabase"),
            demanded=options.enabled == "on",
        )
    return await examine_in_thread(project, options, folder)
