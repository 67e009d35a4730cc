"""Configuration of lit: `lit -v lit_tests` runs every test in this folder."""

import sys
from pathlib import Path
from typing import Any

import lit.formats

config: Any = globals()["config"]  # set by lit

config.name = "rammer-mlir"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs"]
config.test_source_root = str(Path(__file__).parent)
config.test_exec_root = str(Path(__file__).parent.parent / "build" / "lit")

_ROOT = Path(__file__).parent.parent
_BIN = Path(sys.executable).parent

# The source tree first, so that the tests run on it whatever is installed.
config.environment["PYTHONPATH"] = str(_ROOT)
config.environment["PYTHONDONTWRITEBYTECODE"] = "1"
config.environment["RAMMER_CACHE_DIR"] = ""  # compile every time
config.environment["PATH"] = f"{_BIN}:/usr/bin:/bin"
for tool in ("opt", "compile", "run"):
    command = f"{sys.executable} -m rammer_mlir.cli.{tool}"
    config.substitutions.append((rf"\brammer-{tool}\b", command))
config.substitutions.append((r"\bfilecheck\b", f"{_BIN / 'filecheck'} --dump-input=fail"))
config.substitutions.append((r"%python\b", sys.executable))
