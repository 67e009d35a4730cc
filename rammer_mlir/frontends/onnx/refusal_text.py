"""Formats messages about nodes and values that cannot be compiled, grouped by reason.

The text of a group has the count of its nodes or values, and the names of the first three.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_SHOWN = 3
"""Largest number of nodes per reason in a message."""


@dataclass(frozen=True)
class Refusal:
    """The reason why a node or a value cannot be compiled.

    Attributes:
        name: name of the node or value.
        operator: operator of the node; empty for a value.
        reason: the reason, which messages state once for all nodes with the same reason and advice.
        advice: the remedy; may be empty.
        detail: details of this node only; may be empty.
    """

    name: str
    operator: str
    reason: str
    advice: str = ""
    detail: str = ""

    @property
    def why(self) -> str:
        """The reason and the remedy as text; refusals with equal texts become one group."""
        return f"{self.reason}; {self.advice}" if self.advice else self.reason

    @property
    def label(self) -> str:
        """The name and, for a node, the operator, as text in a list of refusals."""
        return f"'{self.name}' ({self.operator})" if self.operator else f"'{self.name}'"

    def __str__(self) -> str:
        """Return the message about this node or value alone."""
        if not self.operator:
            return f"'{self.name}' {self.why}"
        return f"'{self.name}' ({self.operator}: {self.detail}{self.why})"


def refusals_text(refusals: Iterable[Refusal]) -> str:
    """Return a message with all refusals, grouped by reason and remedy.

    The groups have the order of their first refusals.
    """
    groups: dict[str, list[Refusal]] = {}
    for refusal in refusals:
        groups.setdefault(refusal.why, []).append(refusal)
    texts = (
        str(group[0]) if len(group) == 1 else _group_text(why, group)
        for why, group in groups.items()
    )
    return f"not supported: {', '.join(texts)}"


def _group_text(why: str, group: Sequence[Refusal]) -> str:
    kind = "nodes" if group[0].operator else "values"
    named = first_few([refusal.label for refusal in group])
    return f"{len(group)} {kind}, {named}: {why}"


def first_few(labels: Sequence[str]) -> str:
    """Return the first three labels as text, and the count of the omitted labels, if any."""
    more = len(labels) - _SHOWN
    return ", ".join(labels[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
