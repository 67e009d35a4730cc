"""Collects generic-form text in which each operation keeps its line number of the input."""

from __future__ import annotations


class Output:
    """The generic form that a parser writes, with every operation on the line it has in the input.

    When MLIR parses the generic form, its diagnostics therefore name the lines of the user's text.
    """

    def __init__(self) -> None:
        """Begin with an empty text, at line 1."""
        self._pieces: list[str] = []
        self._line = 1

    def copy(self, text: str) -> None:
        """Append a part of the parsed text, with its line breaks, unchanged."""
        self._pieces.append(text)
        self._line += text.count("\n")

    def write(self, line: int, text: str) -> None:
        """Append ``text``, which has no line breaks, at line ``line`` of the output.

        If the output is already past that line, append it to the current line.
        """
        if line > self._line:
            self._pieces.append("\n" * (line - self._line))
            self._line = line
        self._pieces.append(text)

    def text(self) -> str:
        """Return the whole text."""
        return "".join(self._pieces)
