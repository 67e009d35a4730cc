"""Options that code generators and engines declare, and the values that users give them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

Value = str | int | float | bool

_BOOLS = {"true": True, "false": False}

_WORDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


@dataclass(frozen=True)
class ModuleOption:
    """An option of a code generator or an engine.

    Attributes:
        name: without that of its owner.
        default: its value where nobody gives one; its type is the option's.
        help: for people, without a full stop.
        choices: the only texts that it takes; any if empty.
        least: the least number that it takes, None for no limit.
        words: texts that it takes beside values of its type.
    """

    name: str
    default: Value
    help: str
    choices: tuple[str, ...] = ()
    least: float | None = None
    words: tuple[str, ...] = ()

    @property
    def expected(self) -> str:
        """Return what values it takes, in words."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        limit = "" if self.least is None else f" of at least {self.least:g}"
        return ", or ".join((_WORDS[type(self.default)] + limit, *self.words))

    def read(self, value: object) -> Value:
        """Return a value of the option's type, or one of its words, from that type or text.

        Raises:
            ValueError: if it is none that the option takes.
        """
        if text_of(value) in self.words:
            return text_of(value)
        found = self._converted(text_of(value))
        is_listed = not self.choices or found in self.choices
        if not is_listed or (isinstance(found, int | float) and not self._is_enough(found)):
            raise ValueError(value)
        return found

    def _converted(self, text: str) -> Value:
        if isinstance(self.default, bool):
            if text not in _BOOLS:
                raise ValueError(text)
            return _BOOLS[text]
        return type(self.default)(text)

    def _is_enough(self, number: float) -> bool:
        return self.least is None or number >= self.least


def text_of(value: object) -> str:
    """Return a value as text, as artifacts and pass options hold it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def complete(declared: Iterable[ModuleOption], given: Mapping[str, str]) -> dict[str, Value]:
    """Return the values of all options: those that are given, and the defaults of others.

    Raises:
        ValueError: if one is none that its option takes.
    """
    return {o.name: o.read(given[o.name]) if o.name in given else o.default for o in declared}


def of_owner(given: Mapping[str, str], owner: str) -> dict[str, str]:
    """Return the values for a code generator or engine, of options named ``OWNER.OPTION``."""
    pairs = ((name.partition("."), value) for name, value in given.items())
    return {rest: value for (first, _, rest), value in pairs if first == owner}


def written(given: Mapping[str, str]) -> str:
    """Return values as one word: ``openvino.threads=2&iree.seconds=60``."""
    return urlencode(given)


def read_written(text: str) -> dict[str, str]:
    """Return the values of a word that ``written`` made."""
    return dict(parse_qsl(text, keep_blank_values=True))
