"""Defines the messages between a process and its worker process, and the worker's loop.

A message consists of a status of one byte, the length of the content in bytes, and the content. In
requests, the status is 0 and has no meaning; in replies, it is OK or FAILED.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass

HEADER = struct.Struct("<BQ")
"""Encoding of a message's header: status, and number of content bytes."""

OK, FAILED = 0, 1


@dataclass(frozen=True)
class Reply:
    """A worker's answer to a request.

    Attributes:
        status: OK or FAILED.
        content: the result if ``status`` is OK, else an error message of one line.
    """

    status: int
    content: bytes

    @property
    def ok(self) -> bool:
        """Whether the request succeeded."""
        return self.status == OK


def serve(handle: Callable[[bytes], bytes], error_line: Callable[[Exception], str]) -> None:
    """Answer requests on standard input until the input is closed.

    Args:
        handle: returns the result of a request; any exception means that the request failed.
        error_line: returns the error message of one line for an exception of ``handle``.
    """
    # Text that libraries print must not mix with the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while header := sys.stdin.buffer.read(HEADER.size):
        _, length = HEADER.unpack(header)
        content = sys.stdin.buffer.read(length)
        try:
            reply = Reply(OK, handle(content))
        except Exception as error:
            reply = Reply(FAILED, error_line(error).encode())
        answers.write(HEADER.pack(reply.status, len(reply.content)) + reply.content)
        answers.flush()
