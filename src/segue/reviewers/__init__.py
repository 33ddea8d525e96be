"""Who looks at what an agent did: stet, or any command whose output can be read."""
