"""What the recorded runs say about agents: reports, and experiments that make more of them."""
