"""`segue bench`: measure the judge, and Segue's own proof."""
