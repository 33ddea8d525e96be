"""Records what an agent and its model say to each other: a small server between them."""
