"""Reports about the dataset: where agents fail, what helps, and which agent does better."""
