"""What is looked at in every project that a build or `segue check` examines."""

from __future__ import annotations

from pathlib import Path

from segue.config.settings import Settings
from segue.features.supabase.rls.options import FOLDER, RlsOptions
from segue.flow.context import Examination, Examine


def make_examiner(settings: Settings, folder: Path) -> Examine | None:
    """Return what tries out the row level security of a Supabase project; None when it is switched off."""
    options = settings.part("rls", RlsOptions)
    if options.enabled == "off":
        return None

    async def examine(project: Path) -> Examination | None:
        if not (project / FOLDER).is_dir():
            return None
        from segue.features.supabase.rls import examine as examine_project

        report = await examine_project(project, options, folder)
        return None if report is None else Examination(report.as_check(), report.as_json(), report.decides)

    return examine
