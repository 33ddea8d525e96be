"""The dataset in the forms that others read: trajectories, traces, task instances, a folder to publish."""
