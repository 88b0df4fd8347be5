"""Encodings that rotate queries and keys: R(m) q and R(n) k."""
