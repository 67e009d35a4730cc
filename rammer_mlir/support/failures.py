"""Formats exceptions of extensions, such as a user's policy, for errors of one line."""

from __future__ import annotations

FAILURES: tuple[type[BaseException], ...] = (Exception, SystemExit)
"""Exceptions of an extension that become errors of one line.

An extension that calls ``sys.exit`` must not end the tool silently; an interrupt by the user does.
"""


def failure_text(error: BaseException) -> str:
    """Return an exception's type and message in one line, or its type if it has no message.

    Examples are ``ZeroDivisionError: division by zero`` and ``AssertionError``. An exception whose
    conversion to text fails counts as one without a message.
    """
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:
        text = type(error).__name__
    return " ".join(text.split()).removesuffix(":")
