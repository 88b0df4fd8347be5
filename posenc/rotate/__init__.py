"""Encodings that turn queries and keys: R(m) q and R(n) k."""
