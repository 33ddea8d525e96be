"""Commands that look after the database and the state folder, and measure judges."""
