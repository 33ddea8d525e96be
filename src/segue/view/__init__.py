"""The one fold of events: what a run has done so far, computed in one place for everybody who shows it."""
