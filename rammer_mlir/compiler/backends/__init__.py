"""Contains a ``Backend`` for each target; the names and tools of targets occur nowhere else."""
