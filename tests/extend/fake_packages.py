"""Fake packages: metadata and a module in a folder, so that ``importlib.metadata`` finds them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def install(
    folder: Path, package: str, groups: Mapping[str, Mapping[str, str]], code: str = ""
) -> None:
    """Install a fake package in ``folder``: metadata, and a module with the Python text ``code``.

    ``groups`` has the entry points (name and object) of each group of this project's extensions.
    """
    info = folder / f"{package.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    info.joinpath("METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines: list[str] = []
    for group, entries in groups.items():
        lines.append(f"[rammer_mlir.{group}]")
        lines.extend(f"{name} = {value}" for name, value in entries.items())
    info.joinpath("entry_points.txt").write_text("\n".join(lines) + "\n")
    folder.joinpath(f"{package.replace('-', '_')}.py").write_text(code)
