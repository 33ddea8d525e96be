"""What makes "done" worth the name: the contract, guards around launches, sealed checks."""
