"""Count the lines of code that integrate a foreign code generator, without blank lines.

These are the lines of two sets of files:

- the folder that has the file of the code generator's class, or only this file if it is not in a
  folder of ``rammer_mlir/codegens``
- the Python files of ``rammer_mlir/engines`` whose names begin with the code generator's name
"""

from __future__ import annotations

import inspect
from pathlib import Path

from rammer_mlir import codegens

_ENDINGS = (".py", ".c", ".h", ".mlir", ".toml", ".json")


def integration_lines(codegen: object) -> int:
    """Return the number of lines, without blank lines, of the code that integrates ``codegen``.

    ``codegen`` is a registered foreign code generator.
    """
    file = Path(inspect.getfile(type(codegen))).resolve()
    room = Path(codegens.__file__).resolve().parent
    if file.is_relative_to(room) and file.parent != room:
        folder = room / file.relative_to(room).parts[0]
        files = [path for path in folder.rglob("*") if path.suffix in _ENDINGS]
    else:
        files = [file]
    engines = room.parent / "engines"
    files += engines.rglob(f"{getattr(codegen, 'name', '-')}*.py")
    return sum(map(_lines, files))


def _lines(file: Path) -> int:
    return sum(bool(line.strip()) for line in file.read_text(encoding="utf-8").splitlines())
