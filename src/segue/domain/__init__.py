"""What things are: the values that travel through the house. No I/O here."""
