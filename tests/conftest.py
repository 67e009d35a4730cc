"""Turns off the compile cache for all tests."""

from __future__ import annotations

import os

from rammer_mlir.compiler.cache import FOLDER_VARIABLE

# Tests are about compiling, and leave the user's folders alone; child processes inherit it.
os.environ[FOLDER_VARIABLE] = ""
