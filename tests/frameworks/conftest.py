"""Tests with PyTorch and JAX, which are collected only where these frameworks are installed.

``make frontends`` makes an environment for each framework, and runs its tests there.
"""

from __future__ import annotations

from importlib.util import find_spec

FRAMEWORKS = {"torch": "test_pytorch*.py", "jax": "test_jax*.py"}

collect_ignore_glob = [tests for name, tests in FRAMEWORKS.items() if find_spec(name) is None]
