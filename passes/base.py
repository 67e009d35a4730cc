"""Base class of passes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir


@dataclass(frozen=True)
class Pass(ABC):
    name: ClassVar[str]

    @abstractmethod
    def run(self, module: ir.Module) -> None: ...
