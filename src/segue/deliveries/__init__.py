"""Deliveries: what happens with the work of a run: its branch stays, is merged, or is proposed."""
