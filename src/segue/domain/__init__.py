"""What things are: the values that every layer uses. No I/O here."""
