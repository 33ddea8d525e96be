"""Commands that set Segue up and check the setup."""
