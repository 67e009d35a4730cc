"""Defines the options that code generators and engines declare, and checks their values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from urllib.parse import parse_qsl, urlencode

from rammer_mlir.errors import OptionError
from rammer_mlir.support.plugins import PLAIN_NAME

Value = str | int | float | bool

_BOOLS = {"true": True, "false": False}

_WORDS = {str: "a text", int: "an integer", float: "a finite number", bool: "true or false"}


@dataclass(frozen=True)
class ModuleOption:
    """An option of a code generator or an engine.

    Attributes:
        name: name of the option, such as ``threads``. On the command line, the name of the code
            generator or engine and a dot precede this name, as in ``openvino.threads``.
        default: default value, whose type is the option's type.
        help: help text without a full stop.
        choices: the allowed texts; any text if empty.
        least, most: the least and the largest allowed number; None for no limit.
        words: texts allowed in addition to values of the type, such as ``all``.
    """

    name: str
    default: Value
    help: str
    choices: tuple[str, ...] = ()
    least: float | None = None
    words: tuple[str, ...] = ()
    most: float | None = None

    def __post_init__(self) -> None:
        """Check the name and the default value.

        Raises:
            OptionError: if the name is invalid, or the default value has an unsupported type or is
                not an allowed value.
        """
        name: object = vars(self)["name"]
        if not isinstance(name, str) or not PLAIN_NAME.fullmatch(name):
            raise OptionError(
                f"ModuleOption: expected a name of letters, digits, '_' and '-', found {name!r}"
            )
        if type(self.default) not in _WORDS:
            raise OptionError(
                f"ModuleOption '{self.name}': expected a text, a number or a bool as default, "
                f"found {self.default!r}"
            )
        try:
            self.read(self.default)
        except ValueError as error:
            raise OptionError(
                f"ModuleOption '{self.name}': expected {self.expected} as default, found "
                f"{self.default!r}"
            ) from error

    @property
    def expected(self) -> str:
        """Return a description of the allowed values, for messages."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        limits = (("at least", self.least), ("at most", self.most))
        limit = " and ".join(f"{text} {number:g}" for text, number in limits if number is not None)
        kind = _WORDS[type(self.default)] + (f" of {limit}" if limit else "")
        return ", or ".join((kind, *self.words))

    def read(self, value: object) -> Value:
        """Convert a value to the option's type.

        ``value`` has the option's type, or is a text that represents such a value. One of the
        additionally allowed texts ``words`` is returned unchanged.

        Raises:
            ValueError: if the option does not allow the value.
        """
        if text_of(value) in self.words:
            return text_of(value)
        found = self._converted(text_of(value))
        is_listed = not self.choices or found in self.choices
        if not is_listed or (isinstance(found, int | float) and not self._is_within(found)):
            raise ValueError(value)
        return found

    def _converted(self, text: str) -> Value:
        if isinstance(self.default, bool):
            if text not in _BOOLS:
                raise ValueError(text)
            return _BOOLS[text]
        return type(self.default)(text)

    def _is_within(self, number: float) -> bool:
        if isinstance(number, float) and not isfinite(number):
            return False
        is_enough = self.least is None or number >= self.least
        return is_enough and (self.most is None or number <= self.most)


def text_of(value: object) -> str:
    """Return the text of an option's value, such as ``true`` or ``2``.

    Artifacts and the options of passes contain such texts.
    """
    return str(value).lower() if isinstance(value, bool) else str(value)


def complete(declared: Iterable[ModuleOption], given: Mapping[str, str]) -> dict[str, Value]:
    """Return the values of all declared options by option name: the given value, else the default.

    ``given`` has texts of values by option name; they are converted to the options' types.

    Raises:
        ValueError: if an option does not allow its value.
    """
    return {o.name: o.read(given[o.name]) if o.name in given else o.default for o in declared}


def of_owner(given: Mapping[str, str], owner: str) -> dict[str, str]:
    """Return the values of the options of ``owner``, a code generator or engine, by option name.

    ``given`` has the options of all owners; an owner's name and a dot precede the option's name.
    For the owner ``iree``,
    ``{"iree.seconds": "60", "openvino.threads": "2"}`` gives ``{"seconds": "60"}``.
    """
    pairs = ((name.partition("."), value) for name, value in given.items())
    return {rest: value for (first, _, rest), value in pairs if first == owner}


def written(given: Mapping[str, str]) -> str:
    """Return option values, given by name, as a text in the form of a URL's query.

    For example, the text is ``openvino.threads=2&iree.seconds=60``.
    """
    return urlencode(given)


def read_written(text: str) -> dict[str, str]:
    """Return the option values, by name, from a text that ``written`` returned."""
    return dict(parse_qsl(text, keep_blank_values=True))
