"""Accepts MLIR as users pass it: a file, text, bytecode, or a module of any MLIR bindings."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.errors import ModelError, OptionError

BYTECODE = b"ML\xefR"
"""Magic bytes of MLIR bytecode."""

SUFFIXES = (".mlir", ".mlirbc")
"""Suffixes of MLIR files; other files are recognized by their content."""

if TYPE_CHECKING:
    from rammer_mlir.bindings import ir

    GivenModule = str | os.PathLike[str] | bytes | ir.Module

GivenConstants = Mapping[str, Any] | str | os.PathLike[str]
"""Values of weights by name, or the path of an ``.npz`` file."""

_BEGIN = re.compile(r'\s*+(?:(?:builtin\.)?module\b|func\.func\b|"builtin\.module"\().*[{}]')
"""The beginning of a module's text on a single line, which is no path."""

_PROTOBUF = (b"\x08", b"\x0a", b"\x12", b"\x1a", b"\x22", b"\x2a", b"\x32", b"\x3a", b"\x42")
"""First bytes of serialized ONNX models: the tags of possible first fields."""


@dataclass(frozen=True)
class MlirSource:
    """A module to compile, as text or bytecode.

    Attributes:
        content: UTF-8 text, or bytecode.
        name: name of the module in messages.
        entry: name of the function to compile; None for all public functions.
        constants: by name, values of weights that the module declares without values.
    """

    content: bytes
    name: str
    entry: str | None = None
    constants: Mapping[str, NDArray[np.generic]] = field(
        default_factory=dict[str, "NDArray[np.generic]"], hash=False
    )


def mlir_source_of(given: object) -> MlirSource | None:
    """Return ``given`` as an MLIR source; None if it may be a model of another front end.

    MLIR sources are:

    - a module object of any MLIR bindings
    - a path that ends in ``.mlir`` or ``.mlirbc``, or whose file contains bytecode
    - a ``str`` of several lines, or of one line that begins like an MLIR module or function
    - bytes that are bytecode or printable UTF-8 text

    Raises:
        ModelError: if a file cannot be read, or contains text in another encoding.
    """
    if hasattr(given, "operation") and hasattr(given, "context"):
        return MlirSource(_content_of_module(given), "the module")
    if isinstance(given, str) and ("\n" in given or _is_single_line(given)):
        return MlirSource(given.encode(), "the module")
    if isinstance(given, bytes | bytearray | memoryview):
        content = bytes(given)
        return MlirSource(content, "the module") if _is_mlir(content) else None
    if isinstance(given, str | os.PathLike):
        return _source_of_file(Path(cast("str | os.PathLike[str]", given)))
    return None


def _is_single_line(given: str) -> bool:
    if not _BEGIN.match(given):
        return False
    try:
        return not Path(given).exists()
    except (OSError, ValueError):  # too long for a path, or with a null character
        return True


def _content_of_module(given: Any) -> bytes:
    """Serialize a module, including its locations, to bytecode or text.

    A module of the compiler's own bindings becomes bytecode. A module of other bindings becomes
    text, because another version of MLIR may have another bytecode format. Raises ModelError if the
    module cannot be serialized.
    """
    from rammer_mlir.bindings import ir

    try:
        if isinstance(given, ir.Module):
            buffer = io.BytesIO()
            given.operation.write_bytecode(buffer)
            return buffer.getvalue()
        text: str = given.operation.get_asm(enable_debug_info=True, print_generic_op_form=False)
    except Exception as error:
        raise ModelError(
            f"the module cannot be serialized ({type(error).__name__}: {error}); give its text"
        ) from error
    return text.encode()


def _is_mlir(content: bytes) -> bool:
    if content.startswith(BYTECODE):
        return True
    if not content.strip() or (content.startswith(_PROTOBUF) and not _is_printable(content)):
        return False
    return _is_printable(content)


def _is_printable(content: bytes) -> bool:
    """Return whether the first 4096 bytes of ``content`` are printable UTF-8 text."""
    try:
        text = content[:4096].decode(errors="strict" if len(content) <= 4096 else "ignore")
    except UnicodeDecodeError:
        return False
    return all(c.isprintable() or c in "\n\r\t" for c in text)


def _source_of_file(path: Path) -> MlirSource | None:
    try:
        with path.open("rb") as file:
            is_mlir = path.suffix in SUFFIXES or file.read(len(BYTECODE)) == BYTECODE
            file.seek(0)
            content = file.read() if is_mlir else b""
    except (OSError, ValueError) as error:
        if path.suffix not in SUFFIXES:
            return None  # another front end reports the error
        reason = getattr(error, "strerror", None) or error
        raise ModelError(f"cannot read '{path}': {reason}") from error
    if not is_mlir:
        return None
    if not content.startswith(BYTECODE):
        try:
            content.decode()
        except UnicodeDecodeError:
            raise ModelError(
                f"'{path}': expected MLIR as text in UTF-8 or as bytecode, found neither"
            ) from None
    return MlirSource(content, str(path))


def _owned(value: object) -> NDArray[np.generic]:
    """Return ``value`` as a read-only or copied array in the processor's byte order.

    A caller's later changes of ``value`` must not affect later compilations for other sizes.
    """
    array = np.asarray(value)
    kept = np.array(array, order="C") if array.flags.writeable else array
    return kept if array.dtype.isnative else kept.astype(array.dtype.newbyteorder("="))


def read_constants(given: object, name: str) -> dict[str, NDArray[np.generic]]:
    """Return the values of weights by weight name, from a mapping or an ``.npz`` file.

    Args:
        given: the mapping, or the path of the file; None gives an empty dictionary.
        name: name of the user's option, for messages.

    Raises:
        OptionError: if ``given`` is neither a mapping nor a path, or if the file cannot be read.
    """
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return {str(key): _owned(value) for key, value in given.items()}
    if not isinstance(given, str | os.PathLike):
        raise OptionError(f"{name}: expected arrays by name, or an .npz file, found {given!r}")
    try:
        with np.load(cast("str | os.PathLike[str]", given), allow_pickle=False) as arrays:
            if not hasattr(arrays, "files"):
                raise ValueError("it is no .npz file")
            return {key: arrays[key] for key in arrays.files}
    except (OSError, ValueError, EOFError) as error:
        reason = getattr(error, "strerror", None) or error
        raise OptionError(f"{name}: cannot read '{given}' as .npz: {reason}") from error
