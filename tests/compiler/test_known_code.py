"""Objects that programs of equal code share."""

from __future__ import annotations

from rammer_mlir.compiler.known_code import KnownCode


def test_the_last_used_are_kept() -> None:
    known = KnownCode()
    names = [bytes([number]) for number in range(17)]
    for name in names[:16]:
        known.keep(name, name)
    assert known.find(names[0]) == names[0]
    known.keep(names[16], names[16])
    assert known.find(names[1]) is None
    assert [known.find(name) for name in (names[0], names[2], names[16])] == [
        names[0],
        names[2],
        names[16],
    ]
