"""The bridge: turns the command lines that an agent prints into actions, and tells it what came of them."""
