"""What the simulated HTTP services share."""
