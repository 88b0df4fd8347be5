"""The tokenizer that lies in a GGUF, by the library tokenizers."""

from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers  # pyright: ignore[reportMissingImports]

# How llama.cpp's names cut a text into words before bytes are merged
WORDS_OF_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
WORDS_OF_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CUTS = {
    "smollm": [pre_tokenizers.Digits(individual_digits=True), WORDS_OF_GPT2],
    "gpt-2": [WORDS_OF_GPT2],
    "default": [WORDS_OF_GPT2],
    "llama-bpe": [WORDS_OF_LLAMA3],
    "qwen2": [WORDS_OF_LLAMA3.replace("{1,3}", "")],
}
CONTROL = 3  # the type of tokens such as <bos>, which no text turns into by chance


def tokenizer_of(metadata: dict[str, Any]) -> Tokenizer:
    """Return the tokenizer of a GGUF with that metadata.

    Raises:
        ValueError: If the file has a tokenizer of another kind.
    """
    kind = metadata["tokenizer.ggml.model"]
    if kind == "llama":
        tokenizer = _by_scores(metadata)
    elif kind == "gpt2" and metadata.get("tokenizer.ggml.pre", "default") in CUTS:
        tokenizer = _by_merges(metadata)
    else:
        name = f"{kind}, {metadata.get('tokenizer.ggml.pre')}"
        raise ValueError(f"real: tokenizer must be llama, or gpt2 cut as {', '.join(CUTS)}, got {name}")
    types = metadata["tokenizer.ggml.token_type"]
    tokens = metadata["tokenizer.ggml.tokens"]
    control = [token for token, kind in zip(tokens, types, strict=True) if kind == CONTROL]
    # Without this, "<bos>" in a text would be cut into letters.
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in control])
    return tokenizer


def _by_merges(metadata: dict[str, Any]) -> Tokenizer:
    """Return a byte-level BPE, whose merges stand in the file."""
    numbers = _numbers(metadata)
    merges = [tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(numbers, merges))
    cuts = [_cut(cut) for cut in CUTS[metadata.get("tokenizer.ggml.pre", "default")]]
    # Words are cut first; then bytes stand for letters, so that any text has tokens.
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*cuts, to_bytes])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _cut(cut: Any) -> Any:
    return pre_tokenizers.Split(Regex(cut), "isolated") if isinstance(cut, str) else cut


def _by_scores(metadata: dict[str, Any]) -> Tokenizer:
    """Return a BPE of SentencePiece: what two tokens merge into comes first if its score is higher."""
    numbers = _numbers(metadata)
    scores = metadata["tokenizer.ggml.scores"]
    # SentencePiece stores scores and no merges: each cut of a token into two known ones is a merge with its score.
    merges = []
    for token in numbers:
        halves = [(token[:cut], token[cut:]) for cut in range(1, len(token))]
        merges += [(pair, scores[numbers[token]]) for pair in halves if pair[0] in numbers and pair[1] in numbers]
    merges.sort(key=lambda merge: -merge[1])
    tokenizer = Tokenizer(models.BPE(numbers, [pair for pair, _ in merges], byte_fallback=True))
    space = "▁"
    tokenizer.normalizer = normalizers.Replace(" ", space)
    if metadata.get("tokenizer.ggml.add_space_prefix", True):
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(space), tokenizer.normalizer])
    tokenizer.decoder = decoders.Sequence([decoders.Replace(space, " "), decoders.ByteFallback(), decoders.Fuse()])
    return tokenizer


def _numbers(metadata: dict[str, Any]) -> dict[str, int]:
    return {token: number for number, token in enumerate(metadata["tokenizer.ggml.tokens"])}
