"""Model types whose plan differs from their code, each with the reason."""

EXCEPTED = {
    "hunyuan_vl_text": "as Tencent's code has it; that of transformers is equal for text, and with pictures gives the "
    "two channels of a pair cosines of different axes, which no rotation does",
}
