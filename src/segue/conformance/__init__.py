"""What every part that fits a socket must pass; also for parts written by others."""
