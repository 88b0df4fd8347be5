"""Model types whose plan differs from their code, each with the reason."""

EXCEPTED = {}
