"""The table of the kinds of cases that the fuzzer tries, by name."""

from __future__ import annotations

from tests.fuzz import artifacts, files, models, rewrites
from tests.fuzz.pool import Kind

KINDS = {
    "model": Kind(models.make, models.check),
    "file": Kind(files.make, files.check),
    "artifact": Kind(artifacts.make, artifacts.check),
    "equivalent": Kind(rewrites.make, rewrites.check),
}
