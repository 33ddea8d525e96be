"""The process that outlives Segue and owns its agents."""
