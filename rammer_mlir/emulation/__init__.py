"""Emulation of GPU kernels on the host's processor."""
