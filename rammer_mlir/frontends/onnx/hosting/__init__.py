"""Models that no single static program computes, as host programs around static parts."""
