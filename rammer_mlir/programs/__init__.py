"""Compiled programs as data, without MLIR: records, images, signatures."""
