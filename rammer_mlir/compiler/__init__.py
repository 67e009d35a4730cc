"""From a model to an executable: options, stages, backends, the cache."""
