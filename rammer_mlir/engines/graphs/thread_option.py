"""Defines the option ``threads`` of engines: the number of threads that compute a region."""

from __future__ import annotations

from rammer_mlir.engines.host import EntryHost
from rammer_mlir.programs.module_options import ModuleOption

ALL_THREADS = "all"

MOST_THREADS = 1024
"""Most threads of a region; libraries crash or hang when they start far more."""


def thread_option(help_text: str) -> ModuleOption:
    """Return the option ``threads``, which a code generator and its engine both declare.

    The option's value is a number of threads, by default 1, or ``all`` for one thread per vEU. With
    ``all``, the code generator gives regions the grain ``device``. ``help_text`` describes the
    option to users.
    """
    return ModuleOption("threads", 1, help_text, least=1, most=MOST_THREADS, words=(ALL_THREADS,))


def num_threads(host: EntryHost) -> int:
    """Return the number of threads that compute a region, according to the option ``threads``.

    If the option is ``all``, the result is the program's number of vEUs.
    """
    given = host.options["threads"]
    return host.num_veus if given == ALL_THREADS else int(given)
