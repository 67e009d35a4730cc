"""Generic text under construction, with each operation on its line of the source."""

from __future__ import annotations


class Output:
    """Pieces of text; a diagnostic of MLIR names the source's line because lines stay in place."""

    def __init__(self) -> None:
        """Begin at line 1."""
        self._pieces: list[str] = []
        self._line = 1

    def copy(self, text: str) -> None:
        """Add text of the source as it is."""
        self._pieces.append(text)
        self._line += text.count("\n")

    def write(self, line: int, text: str) -> None:
        """Add text without line breaks at a line, or at the current one if that is later."""
        if line > self._line:
            self._pieces.append("\n" * (line - self._line))
            self._line = line
        self._pieces.append(text)

    def text(self) -> str:
        """Return everything."""
        return "".join(self._pieces)
