"""How often the configured judge catches wrong work: small pieces of work, each right once and wrong once."""
