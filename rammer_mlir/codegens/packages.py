"""Defines ``OfPackages``, a base class of code generators whose code calls installed packages."""

from __future__ import annotations

from typing import ClassVar

from rammer_mlir.engines import requirements
from rammer_mlir.programs.modules import Requirement


class OfPackages:
    """A code generator whose code requires the packages ``needs`` when the program is run."""

    needs: ClassVar[tuple[Requirement, ...]] = ()

    def missing(self) -> str | None:
        """Return a message about missing packages; None if all are installed."""
        return requirements.missing(self.needs)

    def version(self) -> str:
        """Return the names and the installed versions of the packages."""
        return requirements.installed_versions(self.needs)
