"""Fake packages: metadata and a module in a folder, so that ``importlib.metadata`` finds them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def install(
    folder: Path, package: str, groups: Mapping[str, Mapping[str, str]], code: str = ""
) -> None:
    """Write a package's metadata, its entry points by group, and its only module with ``code``."""
    info = folder / f"{package.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    info.joinpath("METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines: list[str] = []
    for group, entries in groups.items():
        lines.append(f"[rammer_mlir.{group}]")
        lines.extend(f"{name} = {value}" for name, value in entries.items())
    info.joinpath("entry_points.txt").write_text("\n".join(lines) + "\n")
    folder.joinpath(f"{package.replace('-', '_')}.py").write_text(code)
