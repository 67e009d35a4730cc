"""GPU kernels executed on this machine's processor."""
