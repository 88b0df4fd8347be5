"""Encodings that enter the logits by offset: q k / sqrt(d) + b(n - m)."""
