"""The table of a device file's keys in `docs/costs.md` has every field of a device description."""

from __future__ import annotations

import re
from dataclasses import fields

from rammer_mlir.scheduling.devices.description import DeviceDescription
from tests.documentation.pages import DOCS


def test_the_table_has_every_key() -> None:
    page = (DOCS / "costs.md").read_text(encoding="utf-8")
    table = page.partition("### Keys of a device file")[2].partition("\n## ")[0]
    first_column = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    keys = re.findall(r"`(\w+)`", "".join(first_column))
    assert sorted(keys) == sorted(f.name for f in fields(DeviceDescription) if f.name != "name")
