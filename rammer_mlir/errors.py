"""The errors that a user of the compiler can meet.

Each message is one line: which node, operation or option, what was expected, what was found, and
what to do. The command-line tools print it as ``error: ...`` and exit with status 1.
"""


def _printable(text: str) -> str:
    """Escape what would begin another line or command a terminal: names come from the input."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class RammerError(Exception):
    """Base class of every error that bad input, a bad option or a missing tool can cause."""

    def __init__(self, *parts: object) -> None:
        """Take the message; characters that cannot be printed are escaped."""
        super().__init__(*(_printable(part) if isinstance(part, str) else part for part in parts))


class AssemblyError(RammerError):
    """Text of the `rtask` dialect is malformed; ``line`` counts from 1, the message is without."""

    def __init__(self, line: int, message: str) -> None:
        """Name the line, and what was expected and found there."""
        self.line = line
        super().__init__(message)


class OptionError(RammerError):
    """An option's value is unknown or out of range (policy, target, number of vEUs, stage)."""


class ModelError(RammerError):
    """The model cannot be read or is not valid ONNX."""


class UnsupportedError(RammerError):
    """The model uses operators, types or attributes that cannot be compiled."""


class ShapeError(RammerError):
    """A dimension is unknown, or a shape given by the user does not fit the model."""


class InputError(RammerError):
    """The values given to a run do not fit the model's signature."""


class PassError(RammerError):
    """A pass or a pass pipeline is unknown, malformed or failed."""


class ScheduleError(RammerError):
    """A schedule breaks a rule: an rTask missing or repeated, an unordered conflict, a deadlock."""


class TargetError(RammerError):
    """A target, or a tool that it needs, is missing, failed, or cannot run the program."""


class ArtifactError(RammerError):
    """A compiled artifact is corrupt, foreign, or made for another machine."""


class EmulationError(RammerError):
    """An emulated GPU kernel did what a GPU would not forgive: a race, an overrun, a hang."""


class MissingPackageError(RammerError, ModuleNotFoundError):
    """A package that is needed for what was asked is not installed."""

    def __init__(self, message: str, name: str) -> None:
        """Name the package."""
        super().__init__(message)
        self.name = name


class RammerWarning(UserWarning):
    """Base class of all warnings."""


class ModelWarning(RammerWarning):
    """The model says of itself what its nodes contradict, and is compiled all the same."""


class CacheWarning(RammerWarning):
    """The cache of compiled programs cannot be used, and models are compiled without it."""


class FallbackWarning(RammerWarning):
    """Code from elsewhere lacks what it needs, and the host's rKernels compute its regions."""


class OffloadWarning(RammerWarning):
    """Code generators were asked for, and take nothing of the model."""
