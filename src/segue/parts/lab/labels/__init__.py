"""Labels: whether recorded work was right, as somebody says who did not take part in it."""
