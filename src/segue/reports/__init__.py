"""Questions asked of the dataset: where agents fail, what helps, and who does better on the same prompt."""
