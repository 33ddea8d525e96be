"""One policy for what agents and checks may see and change, and the two enforcers of it."""
