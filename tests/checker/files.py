"""Encodes small artifacts from descriptions, and reads and writes members of artifacts."""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Json = dict[str, Any]


def read_members(path: Path) -> dict[str, bytes]:
    """Return the content of all members of an artifact by name, without the code."""
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist() if not name.startswith("code.")}


def write_members(path: Path, members: Mapping[str, bytes]) -> Path:
    """Write members to an archive without compression; return its path."""
    with zipfile.ZipFile(path, "w") as file:
        for name, data in members.items():
            file.writestr(name, data)
    return path


def members_of(
    program: Json,
    proof: Json,
    boxes: Sequence[int],
    sizes: Mapping[str, Sequence[int]],
    target: str,
) -> dict[str, bytes]:
    """Encode a whole artifact for the checker; return its members by file name.

    Args:
        program: content of ``program.json``.
        proof: content of ``proof.json``.
        boxes: numbers of ``boxes.bin``.
        sizes: bytes of each buffer, by "input", "output", "constant" and "arena".
        target: target of the artifact, "cpu" or a GPU.
    """
    code = "so" if target == "cpu" else "cubin"
    manifest: Json = {"format": "rammer-mlir", "version": 5, "target": target, "code": code}
    for base in ("input", "output"):
        manifest[f"{base}s"] = [{"shape": [n], "dtype": "int8"} for n in sizes[base]]
    manifest["arena_bytes"] = sizes["arena"][0]
    manifest["arguments"] = [["arena", sizes["arena"][0]]]
    members = {
        "manifest.json": json.dumps(manifest).encode(),
        "program.json": json.dumps(program).encode(),
        "proof.json": json.dumps(proof).encode(),
        "boxes.bin": struct.pack(f"<{len(boxes)}q", *boxes),
        "constants.bin": bytes(sizes["constant"][0]),
    }
    tables = cpu_table(program) if target == "cpu" else gpu_tables(program, sizes)
    return members | tables


def totals_of(veus: Sequence[Any]) -> list[int]:
    """Return the number of steps of each vEU; ``veus`` has the list of records of each vEU."""
    return [sum(r[2] for r in veu if r and not isinstance(r[0], list)) for veu in veus]


def cpu_table(program: Json) -> dict[str, bytes]:
    """Return the members of an artifact, by file name, with the table that a CPU executes.

    ``program`` is the content of ``program.json``, whose records the table encodes.
    """
    (veus,) = program["launches"]
    known: dict[tuple[Any, ...], int] = {}
    arguments: list[int] = []
    first: list[int] = []
    for _, _, slots in program["operators"]:
        first.append(len(arguments))
        for slot in slots:
            arguments.append(known.setdefault(tuple(program["slots"][slot]), len(known)))
    words: list[int] = []
    starts: list[int] = []
    for veu in veus:
        starts.append(len(words))
        for record in veu:
            if record and not isinstance(record[0], list):
                operator, begin, count = record
                words += [program["operators"][operator][1], begin, count, first[operator]]
            else:
                words += [-1, len(record), *(number for wait in record for number in wait)]
        words.append(-2)
    i32 = {"records": words, "starts": starts, "arguments": arguments}
    members = {f"{name}.bin": struct.pack(f"<{len(v)}i", *v) for name, v in i32.items()}
    return members | {"totals.bin": struct.pack(f"<{len(veus)}q", *totals_of(veus))}


def gpu_tables(program: Json, sizes: Mapping[str, Sequence[int]]) -> dict[str, bytes]:
    """Return the member ``tables.bin`` of an artifact, which has a GPU's table for each launch.

    The tables encode the records of ``program``, the content of ``program.json``; ``sizes`` are
    those of ``members_of``. After each record of rTasks, the vEU publishes its step counter.
    """
    bases = ("input", "output", "constant", "arena")
    begin = {base: sum(len(sizes[b]) for b in bases[:n]) for n, base in enumerate(bases)}
    rows: list[list[int]] = []
    for veus in program["launches"]:
        words = [0] * len(veus) + totals_of(veus)
        runs: list[tuple[int, int]] = []
        for number, veu in enumerate(veus):
            words[number], steps = len(words), 0
            for record in veu:
                if record and not isinstance(record[0], list):
                    operator, first, count = record
                    steps += count
                    runs.append((len(words) + 3, operator))
                    words += [program["operators"][operator][1], first, count, 0, steps]
                else:
                    words += [-1, len(record), *(number for wait in record for number in wait)]
            words.append(-2)
        for at, operator in runs:
            words[at] = len(words)
            for slot in program["operators"][operator][2]:
                base, index, offset = program["slots"][slot]
                words += [begin[base] + index, offset]
        rows.append(words)
    length = max(map(len, rows))
    flat = [word for row in rows for word in row + [0] * (length - len(row))]
    return {"tables.bin": struct.pack(f"<{len(flat)}q", *flat)}
