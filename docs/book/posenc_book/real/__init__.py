"""Models that somebody else trained, on posenc: read, run, and with each mistake put in.

Nothing is imported here: what reads the files, gguf and tokenizers, is installed by `make models` alone.
"""
