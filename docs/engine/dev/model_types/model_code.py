"""What a model without a rotary module has beside the plan: tables of rows, biases, profiles, and rotations by hand.

Each function returns how far the plan's object is from the model's own code; None where that cannot be called.
"""

import re
import warnings

import numpy as np
import torch

from dev.model_types import modules
from posenc.rotate.rope import rope

TOKENS = 40


def learned(config, read):
    """Compare the number of rows and their width with those of a table in the model, made without numbers."""
    wanted = read.added.length + read.added.offset, read.added.dim
    for model in _models(config):
        named = [*model.named_parameters(), *model.named_buffers()]
        tables = {tuple(table.shape) for name, table in named if re.search("pos|wpe", name) and table.ndim == 2}
        if tables:
            return 0.0 if wanted in tables else float("inf")
    return None


def _models(config):
    """Yield models of this configuration on the meta device, as far as they can be made."""
    from transformers import PreTrainedModel  # here, so that tests are found without it

    module = modules.modeling(type(config))
    for cls in vars(module).values() if module else ():
        if isinstance(cls, type) and issubclass(cls, PreTrainedModel) and modules.takes(cls, type(config)):
            with warnings.catch_warnings(), torch.device("meta"):
                warnings.simplefilter("ignore")
                try:
                    yield cls(config)
                except Exception:  # such as a class that is the base of all, which has no layers
                    continue


def alibi(config, read):
    """Compare differences of biases within a row: theirs are constant along it, which no softmax sees."""
    module, heads = modules.modeling(type(config)), read.layers[0].encoding.heads
    if hasattr(module, "build_mpt_alibi_tensor"):
        theirs = module.build_mpt_alibi_tensor(heads, TOKENS, config.attn_config.alibi_bias_max)
    else:
        theirs = module.build_alibi_tensor(torch.ones(1, TOKENS), heads, torch.float32)
    last = read.layers[0].encoding(torch.tensor([TOKENS - 1]), torch.arange(TOKENS))
    mine, theirs = last[..., 0, :].reshape(heads, TOKENS), theirs.reshape(heads, TOKENS)
    return float((mine - mine[:, -1:] - (theirs - theirs[:, -1:])).abs().max())


def t5(config, read):
    """Compare biases where both have the same table."""
    module = modules.modeling(type(config))
    attention = next(
        cls for name, cls in vars(module).items() if re.fullmatch("(T5|MT5|UMT5|SwitchTransformers)Attention", name)
    )
    worst = 0.0
    for name, part in read.parts.items():
        config.is_decoder = name == "decoder"
        theirs, mine = attention(config, has_relative_attention_bias=True), part.layers[0].encoding
        with torch.no_grad():
            mine.weight.copy_(theirs.relative_attention_bias.weight)
            apart = mine(torch.arange(TOKENS)) - theirs.compute_bias(TOKENS, TOKENS)[0]
        worst = max(worst, float(apart.abs().max()))
    return worst


def profiles(config, read):
    """Compare extent and rank with those of each type of layer, and scores of the same bank and states."""
    module, worst = modules.modeling(type(config)), 0.0
    cls = next(cls for name, cls in vars(module).items() if name.endswith("RelativeLogits"))
    for layer in {layer.layer_type: layer for layer in read.layers}.values():
        attention = _attention(module, config, layer)
        theirs = cls(config.d_rel, attention.rel_extent)
        mine = layer.encoding
        heads, rank = attention.num_heads, config.d_rel
        if mine.bank.shape != theirs.proj.shape or not np.isclose(layer.softmax_scale, attention.scaling):
            return float("inf")
        states, places = torch.randn(1, TOKENS, heads, rank), torch.arange(TOKENS) * 60
        with torch.no_grad():
            theirs.proj.copy_(mine.bank)
            q = torch.zeros(1, heads, TOKENS, layer.head_dim)
            scored = mine(q, q, places, states=states.transpose(1, 2))
            apart = scored - theirs(states, places, places)
        worst = max(worst, float(apart.abs().max()))
    return worst


def _attention(module, config, layer):
    names = ("InklingAttention", "Inkling2SlidingAttention" if layer.window else "Inkling2FullAttention")
    cls = next(getattr(module, name) for name in names if hasattr(module, name))
    with torch.device("meta"):
        return cls(config, layer.index)


def rotated_by_hand(config, layer):
    """Compare with GPT-J, CodeGen and RoFormer, whose attention makes its sines in functions of its own."""
    module = modules.modeling(type(config))
    width = 2 * len(layer.theta)
    q = torch.eye(width).reshape(1, width, 1, width).expand(1, width, len(modules.POSITIONS), width)
    places = list(modules.POSITIONS)
    if hasattr(module, "create_sinusoidal_positions"):
        sin, cos = module.create_sinusoidal_positions(max(places) + 1, width)[None, places].chunk(2, dim=-1)
        theirs = module.apply_rotary_pos_emb(q.transpose(1, 2), sin, cos).transpose(1, 2)
    elif hasattr(module, "RoFormerSelfAttention"):
        table = module.RoFormerSinusoidalPositionalEmbedding(max(places) + 1, width).create_weight()
        theirs, _ = module.RoFormerSelfAttention.apply_rotary_position_embeddings(table[places][None, None], q, q)
    else:
        return None
    mine = np.stack([rope(np.eye(width), np.full(width, p), theta=layer.theta, layout=layer.layout) for p in places])
    return float(abs(mine - theirs[0].transpose(0, 1).numpy()).max())
