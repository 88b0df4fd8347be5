"""Encodings that enter through the token embedding: x + PE(position)."""
