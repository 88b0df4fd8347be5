"""A Llama of random weights in both formats, with one tokenizer: a GGUF, and a folder of transformers."""

from pathlib import Path

import torch

from posenc.models.checkpoints import layout_order
from posenc_book.real.texts import prose

LAYERS, HEADS, KEY_HEADS, DIM, HEAD, HIDDEN, WORDS, LENGTH = 3, 4, 2, 64, 16, 96, 2048, 2048
BASE = 10_000.0
OF_TRANSFORMERS = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}


def tokenizer():
    """Return a byte-level BPE that was trained on a part of the book."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    from posenc_book.real.tokens import WORDS_OF_GPT2

    bpe = Tokenizer(models.BPE())
    cut = pre_tokenizers.Split(Regex(WORDS_OF_GPT2), "isolated")
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [cut, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    bpe.train_from_iterator([prose()[:100_000]], trainers.BpeTrainer(vocab_size=WORDS, initial_alphabet=alphabet))
    return bpe


def weights() -> dict[str, torch.Tensor]:
    """Return the tensors of a GGUF; large enough that attention is far from even."""
    generator = torch.Generator().manual_seed(0)
    shapes = {
        "attn_q": (HEADS * HEAD, DIM),
        "attn_k": (KEY_HEADS * HEAD, DIM),
        "attn_v": (KEY_HEADS * HEAD, DIM),
        "attn_output": (DIM, HEADS * HEAD),
        "ffn_gate": (HIDDEN, DIM),
        "ffn_up": (HIDDEN, DIM),
        "ffn_down": (DIM, HIDDEN),
    }
    tensors = {"token_embd.weight": torch.randn(WORDS, DIM, generator=generator), "output_norm.weight": torch.ones(DIM)}
    for layer in range(LAYERS):
        for name, shape in shapes.items():
            tensors[f"blk.{layer}.{name}.weight"] = torch.randn(shape, generator=generator) * 2 * shape[1] ** -0.5
        for name in ("attn_norm", "ffn_norm"):
            tensors[f"blk.{layer}.{name}.weight"] = 1 + torch.rand(DIM, generator=generator)
    return tensors


def write_gguf(path: Path, tensors: dict[str, torch.Tensor], tokens) -> Path:
    """Write a GGUF as llama.cpp does."""
    import gguf

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(LAYERS)
    writer.add_context_length(LENGTH)
    writer.add_embedding_length(DIM)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_HEADS)
    writer.add_rope_freq_base(BASE)
    writer.add_rope_dimension_count(HEAD)
    writer.add_layer_norm_rms_eps(1e-5)
    vocabulary = sorted(tokens.get_vocab(), key=tokens.get_vocab().get)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(vocabulary)
    writer.add_token_types([1] * len(vocabulary))
    writer.add_token_merges([" ".join(pair) for pair in merges(tokens)])
    writer.add_pad_token_id(0)
    writer.add_bos_token_id(0)
    writer.add_add_bos_token(False)
    for name, tensor in tensors.items():
        writer.add_tensor(name, tensor.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def merges(tokens) -> list[list[str]]:
    """Return the merges of a byte-level BPE."""
    import json

    listed = json.loads(tokens.to_str())["model"]["merges"]
    return [merge.split(" ") if isinstance(merge, str) else merge for merge in listed]


SIZES = {
    "vocab_size": WORDS,
    "hidden_size": DIM,
    "intermediate_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KEY_HEADS,
    "head_dim": HEAD,
    "max_position_embeddings": LENGTH,
    "rope_parameters": {"rope_type": "default", "rope_theta": BASE},
}


def model_of_transformers(tensors: dict[str, torch.Tensor], sizes=SIZES):
    """Return the model of a GGUF's tensors in transformers, whose rows of q and k stand in halves."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(**sizes, rms_norm_eps=1e-5, tie_word_embeddings=True)
    model = LlamaForCausalLM(config)
    state = {f"model.{name}": tensors[own] for name, own in EMBEDDINGS.items()}
    state["lm_head.weight"] = tensors["token_embd.weight"]
    order = torch.as_tensor(layout_order(sizes["head_dim"], "half"))
    for name, tensor in tensors.items():
        if name.startswith("blk."):
            _, layer, part, _ = name.split(".")
            if part in ("attn_q", "attn_k"):
                tensor = tensor.unflatten(0, (-1, sizes["head_dim"]))[:, order].flatten(0, 1)
            state[f"model.layers.{layer}.{OF_TRANSFORMERS[part]}.weight"] = tensor
    model.load_state_dict(state)
    return model.eval()


EMBEDDINGS = {"embed_tokens.weight": "token_embd.weight", "norm.weight": "output_norm.weight"}
