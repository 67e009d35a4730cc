"""The option `threads` of engines: number of threads of a region, or as many as vEUs."""

from __future__ import annotations

from rammer_mlir.engines.host import EntryHost
from rammer_mlir.programs.module_options import ModuleOption

ALL_THREADS = "all"


def thread_option(help_text: str) -> ModuleOption:
    """Return the option ``threads``, declared by both a code generator and its engine.

    Its values are numbers from 1, the default, and ``all``. ``help_text`` describes it to users.
    With ``all``, the code generator gives regions the grain ``device``.
    """
    return ModuleOption("threads", 1, help_text, least=1, words=(ALL_THREADS,))


def num_threads(host: EntryHost) -> int:
    """Return the number of threads that compute a region: the option's, or that of all vEUs."""
    given = host.options["threads"]
    return host.num_veus if given == ALL_THREADS else int(given)
