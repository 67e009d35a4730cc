"""Assigns indices to the operations of a kernel that can fault, to report a fault's location."""

from __future__ import annotations

import re

from rammer_mlir.bindings import ir
from rammer_mlir.emulation.records import SITE_BITS, Site
from rammer_mlir.errors import UnsupportedError

_PLACE = re.compile(r'"([^"]+)"(?::(\d+))?(?::(\d+))?')


class Sites:
    """Assigns site indices to the operations that can fault.

    Operations with the same name, location and number (an argument of ``add``) have the same index.
    """

    def __init__(self) -> None:
        self._numbers: dict[Site, int] = {}

    def add(self, operation: ir.Operation, number: int | None = None) -> int:
        """Add an operation's site if it is new, and return the site's index.

        ``number`` is appended to the operation's name, to distinguish operations with the same name
        and location, such as two barriers from the same source line; None appends nothing.

        Raises:
            UnsupportedError: if there are more than ``2**SITE_BITS`` sites.
        """
        name = operation.name if number is None else f"{operation.name} {number}"
        site = Site(name, location_names(operation))
        if site not in self._numbers and len(self._numbers) == 1 << SITE_BITS:
            raise UnsupportedError(
                f"emulation: expected at most {1 << SITE_BITS} accesses in a kernel, found more"
            )
        return self._numbers.setdefault(site, len(self._numbers))

    def all(self) -> tuple[Site, ...]:
        """Return the sites in the order of their indices."""
        return tuple(self._numbers)


def location_names(operation: ir.Operation) -> str:
    """Return the names in an operation's location (an operator, an rKernel) as text.

    Without names, return the files and lines in the location.
    """
    found: list[tuple[str, str, str]] = _PLACE.findall(str(operation.location))
    names = [name for name, line, _ in found if not line]
    if names:
        return ", ".join(dict.fromkeys(names))
    places = [f"line {line}" if name in ("-", "") else f"{name}:{line}" for name, line, _ in found]
    return ", ".join(dict.fromkeys(places)) or "unknown location"
