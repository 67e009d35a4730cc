"""Represents compiled programs as data, without MLIR: schedules, memory layouts, signatures."""
