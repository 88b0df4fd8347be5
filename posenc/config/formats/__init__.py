"""Configurations of other programs, converted to the keys of transformers."""
