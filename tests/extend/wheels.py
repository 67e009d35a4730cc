"""Makes wheels and fresh environments, without a network and without a build tool."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path


def build_wheel(source: Path, package: str, folder: Path) -> Path:
    """Pack a package's files as ``pyproject.toml`` describes them; return the wheel.

    The wheel names no dependencies: the environment has them.
    """
    project = tomllib.loads((source / "pyproject.toml").read_text("utf-8"))["project"]
    stem = f"{project['name'].replace('-', '_')}-{project['version']}"
    wheel = folder / f"{stem}-py3-none-any.whl"
    info = f"{stem}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    texts = {
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": _entry_points(project),
    }
    with zipfile.ZipFile(wheel, "w") as archive:
        for file in _files(source / package):
            archive.write(file, file.relative_to(source))
        for name, text in texts.items():
            archive.writestr(name, text)
        record = "".join(f"{name},,\n" for name in (*archive.namelist(), f"{info}/RECORD"))
        archive.writestr(f"{info}/RECORD", record)
    return wheel


def _entry_points(project: Mapping[str, Mapping[str, Mapping[str, str]]]) -> str:
    groups = {"console_scripts": project.get("scripts", {}), **project.get("entry-points", {})}
    lines: list[str] = []
    for group, entries in groups.items():
        lines.extend((f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())))
    return "\n".join(lines) + "\n"


def _files(package: Path) -> list[Path]:
    """Return the files of a package, also those in linked folders."""
    return [
        Path(folder) / file
        for folder, _, files in os.walk(package, followlinks=True)
        for file in sorted(files)
        if "__pycache__" not in folder
    ]


def make_environment(folder: Path, wheels: Sequence[Path]) -> Path:
    """Install wheels into a new environment, and return its ``bin`` folder.

    The new environment finds all other packages in the environment of this process.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    (site,) = folder.glob("lib/python*/site-packages")
    site.joinpath("others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    install = ("install", "--quiet", "--no-index", "--no-deps", "--no-compile", "--force-reinstall")
    pip = (sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check")
    subprocess.run([*pip, *install, *map(str, wheels)], check=True)
    return folder / "bin"
