"""Supabase: the check of a project's row level security, and Segue's dataset as migrations of a project."""

from segue.domain.part import Part, PartCommand, PartTable

PART = Part(
    name="supabase",
    summary="Tests the row level security of Supabase projects, and keeps the dataset in one.",
    commands={
        "check rls": PartCommand(
            "segue.parts.supabase.command:rls", "Run", "Test the row level security of a Supabase project."
        ),
        "db supabase": PartCommand(
            "segue.parts.supabase.command:supabase", "Data", "Write the schema as migrations of a project."
        ),
    },
    tables={
        "rls": PartTable(
            "segue.parts.supabase.rls.options:RlsOptions",
            "sends work and questions to services, with your keys",
            confined=("enabled", "schemas", "timeout"),
        )
    },
    sockets={"examiners": {"rls": "segue.parts.supabase.examiner:make_examiner"}},
    extras=("supabase",),
)
