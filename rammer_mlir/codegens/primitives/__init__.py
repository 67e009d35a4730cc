"""Translates regions to primitives for libraries such as oneDNN.

The primitives contain no library's enum values; ``codegens.onednn.table`` adds those of oneDNN.
"""
