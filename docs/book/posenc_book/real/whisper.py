"""The position tables of Whisper tiny.en, out of a file of CTranslate2."""

import struct
from io import BufferedReader
from pathlib import Path

import numpy as np

TYPES = {0: np.float32, 1: np.int8, 2: np.int16, 3: np.int32, 4: np.float16}
TABLES = {"encoder": "encoder/position_encodings/encodings", "decoder": "decoder/position_encodings/encodings"}


def whisper_tables(path: str | Path) -> dict[str, np.ndarray]:
    """Return the tables of the encoder, (1500, 384), and of the decoder, (448, 384), in float64.

    Raises:
        ValueError: If the file is no model of CTranslate2, version 6, with these tables.
    """
    tables = {}
    with Path(path).open("rb") as file:
        version, name = _number(file, "I"), _text(file)
        if version != 6:
            raise ValueError(f"real: path must be a model of CTranslate2, version 6, got version {version}, {name}")
        _number(file, "I")  # the revision
        # Of each variable: its name, shape and type, how many bytes it takes, and these.
        for _ in range(_number(file, "I")):
            name = _text(file)
            shape = [_number(file, "I") for _ in range(_number(file, "B"))]
            dtype, size = TYPES[_number(file, "B")], _number(file, "I")
            if name in TABLES.values():
                tables[name] = np.frombuffer(file.read(size), dtype).reshape(shape).astype(np.float64)
            else:
                file.seek(size, 1)
    return {part: tables[name] for part, name in TABLES.items()}


def _number(file: BufferedReader, code: str) -> int:
    return struct.unpack("<" + code, file.read(struct.calcsize(code)))[0]


def _text(file: BufferedReader) -> str:
    """Return a text behind its length; its last byte is 0."""
    return file.read(_number(file, "H"))[:-1].decode()
