"""Everything that prints: results, tables, live progress, the structured log."""
