"""Formats exceptions of extensions, such as a user's policy, as error messages of one line."""

from __future__ import annotations

FAILURES: tuple[type[BaseException], ...] = (Exception, SystemExit)
"""Exceptions of an extension that become errors of one line.

An extension that calls ``sys.exit`` must not end the tool silently. An interrupt by the user is not
included, and so ends the tool.
"""


def failure_text(error: BaseException) -> str:
    """Return an exception's type and message in one line, or only its type if it has no message.

    Examples are ``ZeroDivisionError: division by zero`` and ``AssertionError``. If the conversion
    of the exception to text fails, only the type is returned.
    """
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:
        text = type(error).__name__
    return " ".join(text.split()).removesuffix(":")
