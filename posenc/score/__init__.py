"""Encodings that enter the logits by content and offset: q k / sqrt(d) + s(q, k, m, n)."""
