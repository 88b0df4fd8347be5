"""Copied files in models of transformers, in place of what they have: the same weights, the same logits."""

import pytest
import torch
from torch import nn

from tests.peers import peer

LENGTH, HEADS, D = 9, 4, 16
SMALL = {"hidden_size": HEADS * D, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": HEADS}
TEXT = SMALL | {"vocab_size": 50, "num_key_value_heads": 2, "attn_implementation": "eager"}


def assert_same(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=0, atol=2e-6)


def tokens():
    return torch.randint(50, (2, LENGTH), generator=torch.Generator().manual_seed(0))


def llama(**settings):
    """Return a Llama with random weights large enough for attention to look somewhere."""
    config = peer("transformers.models.llama.configuration_llama").LlamaConfig(**TEXT | settings)
    return randomized(peer("transformers.models.llama.modeling_llama").LlamaForCausalLM(config))


def randomized(model):
    torch.manual_seed(0)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.2)
    return model.eval().requires_grad_(False)


class Table(nn.Module):
    """Stands where transformers makes cos and sin: what this makes is handed to each layer in their place."""

    def __init__(self, encoding, of_places=lambda places: places):
        super().__init__()
        self.encoding, self.of_places = encoding, of_places

    def forward(self, x, position_ids):
        return self.encoding.table(self.of_places(position_ids)), None


def turn_by(encoding, monkeypatch, module):
    """Let attention of a module of transformers turn q and k by a copied file."""
    turn = lambda q, k, table, _, **kw: (encoding.turn(q, table), encoding.turn(k, table))  # noqa: E731
    monkeypatch.setattr(module, "apply_rotary_pos_emb", turn)


# Rotations with a peer in transformers


SCALED = {
    "default": {"rope_type": "default", "rope_theta": 5e5},
    "yarn": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 32},
    "llama3": {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "original_max_position_embeddings": 32}
    | {"low_freq_factor": 1.0, "high_freq_factor": 4.0},
}


@pytest.mark.parametrize("kind", SCALED)
def test_rope_in_llama(kind, copied, monkeypatch):
    model = llama(rope_parameters=SCALED[kind], max_position_embeddings=128)
    of_prompt = {"max_new_tokens": 5, "do_sample": False, "pad_token_id": 0}
    logits, text = model(tokens()).logits, model.generate(tokens(), **of_prompt)
    theta, factor = copied("from_config")(model.config, D)
    rope = copied("RoPE")(D, theta=theta, attention_factor=factor)
    turn_by(rope, monkeypatch, peer("transformers.models.llama.modeling_llama"))
    model.model.rotary_emb = Table(rope)
    assert_same(model(tokens()).logits, logits)
    assert torch.equal(model.generate(tokens(), **of_prompt), text)  # from a cache of turned keys


def test_yarn_in_llama(copied):
    config = llama(rope_parameters=SCALED["yarn"], max_position_embeddings=128).config
    theta, factor = copied("from_config")(config, D)
    assert (*copied("yarn")(D, 4.0, 32)[0],) == (*theta,)
    assert copied("yarn")(D, 4.0, 32)[1] == factor


def test_mrope_in_qwen2_vl(copied, monkeypatch):
    qwen = peer("transformers.models.qwen2_vl.modeling_qwen2_vl")
    parameters = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [2, 3, 3]}
    config = peer("transformers.models.qwen2_vl.configuration_qwen2_vl").Qwen2VLTextConfig
    model = randomized(qwen.Qwen2VLTextModel(config(**TEXT, rope_parameters=parameters)))
    places = torch.randint(40, (3, 2, LENGTH), generator=torch.Generator().manual_seed(1))  # time, row and column
    expected = model(tokens(), position_ids=places).last_hidden_state
    mrope = copied("MRoPE")(D, sections=(2, 3, 3))
    turn_by(mrope, monkeypatch, qwen)
    model.rotary_emb = Table(mrope, lambda places: places.movedim(0, -1))
    assert_same(model(tokens(), position_ids=places).last_hidden_state, expected)


def test_axial_in_pixtral(copied, monkeypatch):
    pixtral = peer("transformers.models.pixtral.modeling_pixtral")
    config = peer("transformers.models.pixtral.configuration_pixtral").PixtralVisionConfig
    model = randomized(pixtral.PixtralVisionModel(config(**SMALL, patch_size=4, attn_implementation="eager")))
    image = torch.randn(1, 3, 12, 20, generator=torch.Generator().manual_seed(0))
    expected = model(image).last_hidden_state
    y, x = (10_000.0 ** (-torch.arange(start, D, 4, dtype=torch.float64) / D) for start in (0, 2))
    axial = copied("Axial")(D, theta=torch.block_diag(y, x))
    turn_by(axial, monkeypatch, pixtral)
    model.patch_positional_embedding = Table(axial)
    assert_same(model(image).last_hidden_state, expected)


# What changes the width of q and k, or needs them for its scores: a layer of one's own with the weights of Llama's


def let_layers(model, attend):
    """Let each layer of a Llama project as it does, and then `attend`."""
    llama = peer("transformers.models.llama.modeling_llama")

    class Attention(llama.LlamaAttention):
        def forward(self, hidden_states, attention_mask, past_key_values=None, position_ids=None, **_):
            shape = (*hidden_states.shape[:-1], -1, self.head_dim)
            projected = (project(hidden_states) for project in (self.q_proj, self.k_proj, self.v_proj))
            q, k, v = (x.view(shape).transpose(1, 2) for x in projected)
            q, k, attention_mask = attend(self, q, k, position_ids, attention_mask)
            if past_key_values is not None:
                k, v = past_key_values.update(k, v, self.layer_idx)
            y, weights = llama.eager_attention_forward(self, q, k, v, attention_mask, self.scaling)
            return self.o_proj(y.flatten(2)), weights

    for layer in model.model.layers:
        layer.self_attn.__class__ = Attention
    return model


def without_positions(**settings):
    return let_layers(llama(**settings), lambda self, q, k, positions, mask: (q, k, mask))


def test_pope_in_llama(copied):
    theirs = peer("PoPE_pytorch.pope").PoPE(D, heads=HEADS)
    theirs.bias.data = -torch.rand(HEADS, D)
    ours = copied("PoPE")(D, heads=HEADS)
    ours.load_state_dict({"phase": theirs.bias.data})
    model = llama(num_key_value_heads=HEADS)
    let_layers(model, lambda self, q, k, positions, mask: (*theirs.apply_pope_to_qk(theirs(q.shape[2]), q, k), mask))
    expected = model(tokens()).logits
    let_layers(model, lambda self, q, k, positions, mask: (*ours(q, k, positions, positions), mask))
    assert_same(model(tokens()).logits, expected)
    first = model(tokens()[:, :-1], use_cache=True)
    last = model(tokens()[:, -1:], past_key_values=first.past_key_values)
    assert_same(last.logits[:, -1], expected[:, -1])


def test_shaw_in_llama(copied):
    bert = peer("transformers.models.wav2vec2_bert.modeling_wav2vec2_bert")
    ours = copied("Shaw")(D, clip=3)
    like = {"scaling": D**-0.5, "left_max_position_embeddings": 3, "right_max_position_embeddings": 3}
    like["distance_embedding"] = nn.Embedding.from_pretrained(ours.key_table.data)
    theirs = type("Theirs", (), like)

    def of_theirs(self, q, k, positions, mask):
        scores = bert._apply_relative_key_position_encoding(theirs, q, k)[1]
        return q, k, mask + scores

    expected = let_layers(llama(), of_theirs)(tokens()).logits
    model = let_layers(llama(), lambda self, q, k, positions, mask: (q, k, mask + ours(q, k, positions, positions)))
    assert_same(model(tokens()).logits, expected)


# Biases, as the mask of attention; and what is added, to what is embedded


def causal():
    return torch.full((LENGTH, LENGTH), float("-inf")).triu(1)


def test_alibi_as_the_mask_of_llama(copied):
    bloom = peer("transformers.models.bloom.modeling_bloom")
    theirs = bloom.build_alibi_tensor(torch.ones(2, LENGTH), HEADS, torch.float32).view(2, HEADS, 1, LENGTH)
    ours = copied("ALiBi")(HEADS)(torch.arange(LENGTH)).expand(2, -1, -1, -1)
    model = without_positions()
    logits = [model(tokens(), attention_mask=bias + causal()).logits for bias in (ours, theirs)]
    assert_same(*logits)


def test_t5_as_the_mask_of_llama(copied):
    config = peer("transformers.models.t5.configuration_t5").T5Config(num_heads=HEADS, is_decoder=True)
    attention = peer("transformers.models.t5.modeling_t5").T5Attention(config, has_relative_attention_bias=True)
    nn.init.normal_(attention.relative_attention_bias.weight)
    ours = copied("T5")(HEADS, bidirectional=False)
    ours.load_state_dict(attention.relative_attention_bias.state_dict())
    model, theirs = without_positions(), attention.compute_bias(LENGTH, LENGTH)
    logits = [
        model(tokens(), attention_mask=(bias + causal()).expand(2, -1, -1, -1)).logits
        for bias in (ours(torch.arange(LENGTH)), theirs)
    ]
    assert_same(*logits)


def test_sinusoidal_before_llama(copied):
    marian = peer("transformers.models.marian.modeling_marian").MarianSinusoidalPositionalEmbedding(LENGTH, HEADS * D)
    model = without_positions()
    x = model.model.embed_tokens(tokens())
    ours = copied("Sinusoidal")(HEADS * D, order="split")(x)
    assert_same(model(inputs_embeds=ours).logits, model(inputs_embeds=x + marian.create_weight()[:LENGTH]).logits)


def test_learned_before_llama(copied):
    opt = peer("transformers.models.opt.modeling_opt").OPTLearnedPositionalEmbedding(LENGTH, HEADS * D)
    model, ours = without_positions(), copied("Learned")(HEADS * D, length=LENGTH, offset=2)
    ours.load_state_dict(opt.state_dict())
    x = model.model.embed_tokens(tokens())
    expected = model(inputs_embeds=x + opt(torch.ones(2, LENGTH, dtype=torch.long))).logits
    assert_same(model(inputs_embeds=ours(x)).logits, expected)
