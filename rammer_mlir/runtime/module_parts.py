"""Writes and reads foreign code in artifacts: descriptions, requirements and content."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, astuple

from rammer_mlir.programs.modules import CodeModule, ModuleEntry, Requirement
from rammer_mlir.runtime.artifact_parts import Members, Parts

_MODULES, _ENTRIES, _OPTIONS = "modules", "entries", "options"


def write_modules(modules: Sequence[CodeModule], entries: Sequence[ModuleEntry] = ()) -> Parts:
    """Return the manifest entries and archive members by which an artifact stores foreign modules.

    A member has the content of one module. A module whose code is linked into ``code.so``, the
    program's shared library, has no member. ``entries`` are the stateful functions of these
    modules; they are stored in the manifest.
    """
    if not modules:
        return Parts({}, {})
    described = [
        {
            "name": module.name,
            "form": module.form,
            "engine": module.engine,
            "needs": [asdict(need) for need in module.needs],
            "kernels": module.kernels,
            "operations": module.operations,
            **({_OPTIONS: dict(module.options)} if module.options else {}),
        }
        for module in modules
    ]
    members = {_member(n): m.content for n, m in enumerate(modules) if m.content}
    return Parts({_MODULES: described, _ENTRIES: [astuple(entry) for entry in entries]}, members)


def read_modules(members: Members) -> tuple[CodeModule, ...]:
    """Return the foreign code modules of an artifact."""
    found: list[CodeModule] = []
    for number, module in enumerate(members.manifest.get(_MODULES, ())):
        content = members.read(_member(number)) if module["engine"] else b""
        needs = tuple(Requirement(**need) for need in module["needs"])
        given = (module["name"], module["form"], module["engine"])
        does = (tuple(module["kernels"]), module["operations"])
        options = tuple(module.get(_OPTIONS, {}).items())
        found.append(CodeModule(*given, content, needs, *does, options))
    return tuple(found)


def read_entries(members: Members) -> tuple[ModuleEntry, ...]:
    """Return the stateful functions of an artifact's foreign code.

    Their order is that of the rows of the table ``MODULES`` in the program's native code.
    """
    return tuple(ModuleEntry(*entry) for entry in members.manifest.get(_ENTRIES, ()))


def _member(number: int) -> str:
    return f"modules/{number}.bin"
