"""Defines the errors and warnings for users of the compiler.

Each message is one line: which node, operation or option, the expected and the found value, and the
remedy. The command-line tools print it as ``error: ...`` and exit with status 1.
"""


def _printable(text: str) -> str:
    """Return the text with line breaks and terminal control characters escaped.

    Messages contain names from the user's model, which may have such characters.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class RammerError(Exception):
    """Base class of all errors caused by bad input, a bad option or a missing tool."""

    def __init__(self, *parts: object) -> None:
        """Store ``parts``, usually only the message; escape unprintable characters in strings."""
        super().__init__(*(_printable(part) if isinstance(part, str) else part for part in parts))


class AssemblyError(RammerError):
    """Raised for malformed text of the `rtask` dialect.

    ``line`` and ``column`` count from 1, and are 0 if unknown; the message does not contain them.
    """

    def __init__(self, line: int, message: str, column: int = 0) -> None:
        """Store the position of the error, and the message with the expected and the found text."""
        self.line, self.column = line, column
        super().__init__(message)


class OptionError(RammerError):
    """An option's value is unknown or out of range (policy, target, number of vEUs, stage)."""


class ModelError(RammerError):
    """The model cannot be read, or is not valid."""


class UnsupportedError(RammerError):
    """The model uses operators, types or attributes that cannot be compiled."""


class ShapeError(RammerError):
    """A dimension is unknown, or a shape given by the user contradicts the model."""


class InputError(RammerError):
    """The values given to a run do not match the model's signature."""


class PassError(RammerError):
    """A pass or pass pipeline is unknown or malformed, or a pass failed."""


class ScheduleError(RammerError):
    """A schedule breaks a rule: an rTask missing or repeated, an unordered conflict, a deadlock."""


class TargetError(RammerError):
    """A target or a required tool is missing or fails, or the target cannot run the program."""


class ArtifactError(RammerError):
    """An artifact cannot be read or written, is corrupt, or is compiled for another machine."""


class EmulationError(RammerError):
    """An emulated GPU kernel has undefined behavior: a race, an access out of bounds, a hang."""


class MissingPackageError(RammerError, ModuleNotFoundError):
    """A required package is not installed."""

    def __init__(self, message: str, name: str) -> None:
        """Store the message and the name of the missing package."""
        super().__init__(message)
        self.name = name


class RammerWarning(UserWarning):
    """Base class of all warnings."""


class ModelWarning(RammerWarning):
    """The model contradicts itself, but can be compiled."""


class CacheWarning(RammerWarning):
    """The cache of compiled programs cannot be used; models are compiled without it."""


class FallbackWarning(RammerWarning):
    """Foreign code lacks a library or package; rKernels of this compiler replace it."""


class OffloadWarning(RammerWarning):
    """No code generator accepts any region of the model, or foreign code cannot be checked."""
