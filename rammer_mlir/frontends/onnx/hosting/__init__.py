"""Models beyond a single static program, as host programs around static parts."""
