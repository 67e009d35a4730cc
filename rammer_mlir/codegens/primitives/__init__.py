"""Regions as primitives of a library: the common part of integrations of several libraries."""
