"""What cloud agents share: one launch rule, one way to watch, one reading of errors. A vendor is one file."""
