"""Generic text under construction, with each operation on its line of the source."""

from __future__ import annotations


class Output:
    """Text under construction, which keeps the line numbers of the source.

    MLIR's diagnostics then name these lines.
    """

    def __init__(self) -> None:
        """Begin at line 1."""
        self._pieces: list[str] = []
        self._line = 1

    def copy(self, text: str) -> None:
        """Append text of the source, with its line breaks, unchanged."""
        self._pieces.append(text)
        self._line += text.count("\n")

    def write(self, line: int, text: str) -> None:
        """Append text without line breaks at a line number.

        If the text is already past that line, append it to the current line.
        """
        if line > self._line:
            self._pieces.append("\n" * (line - self._line))
            self._line = line
        self._pieces.append(text)

    def text(self) -> str:
        """Return the whole text."""
        return "".join(self._pieces)
