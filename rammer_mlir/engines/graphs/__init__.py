"""Engines of JSON graphs."""
