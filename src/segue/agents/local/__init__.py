"""What all agents share that run a program on this machine."""
