"""Golden vectors: equal to transformers' own modules, and unequal to each fault that is planted."""

import json
from copy import deepcopy

import numpy as np
import pytest
import torch

from posenc.__main__ import main
from posenc.config.plan import plan
from posenc.config.vectors import DRAWN, check, drawn, rotated, vectors
from posenc.rotate.rope import rope
from tests.config.test_formats import GEMMA, LLAMA_31, MINISTRAL, QWEN, V3
from tests.peers import peer

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768}
LONG = QWEN | {"rope_scaling": YARN}


def applied(module, apply):
    """Return what transformers does, as a function of q, k and positions."""

    def rotate(q, k, positions):
        cos, sin = module(q, positions[None])
        return apply(q, k, cos, sin)

    return rotate


def llama():
    theirs = peer("transformers.models.llama.modeling_llama")
    module = theirs.LlamaRotaryEmbedding(theirs.LlamaConfig(**deepcopy(LLAMA_31)))
    return applied(module, theirs.apply_rotary_pos_emb)


def qwen():
    theirs = peer("transformers.models.qwen3.modeling_qwen3")
    module = theirs.Qwen3RotaryEmbedding(theirs.Qwen3Config(**deepcopy(LONG)))
    return applied(module, theirs.apply_rotary_pos_emb)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("config", "function"), [(LLAMA_31, llama), (LONG, qwen)], ids=["llama", "qwen"])
def test_the_modules_of_transformers_pass(config, function, dtype):
    assert check(function(), json.loads(json.dumps(vectors(config))), dtype=dtype) == []


def test_each_type_of_layer_has_its_own_vectors():
    theirs = peer("transformers.models.gemma3.modeling_gemma3")
    module = theirs.Gemma3RotaryEmbedding(theirs.Gemma3TextConfig(**deepcopy(GEMMA)))
    written = vectors(GEMMA)
    assert [group["indices"] for group in written["layers"]] == [[0, 1, 2, 3, 4, 6], [5]]
    for layer, layer_type in ((0, "sliding_attention"), (5, "full_attention")):

        def rotate(q, k, positions, layer_type=layer_type):
            return theirs.apply_rotary_pos_emb(q, k, *module(q, positions[None], layer_type))

        assert check(rotate, written, layer) == []
        assert check(rotate, written, 5 - layer)
    with pytest.raises(ValueError, match=r"layer must be one of \[0, 1, 2, 3, 4, 5, 6\], got 7; others"):
        check(rotate, written, 7)


def test_a_latent_head_turns_its_last_channels():
    theirs = peer("transformers.models.deepseek_v3.modeling_deepseek_v3")
    (group,) = vectors(V3)["layers"]
    assert (group["head_dim"], group["slice"], group["layout"]) == (192, [128, 192], "interleaved")
    module = theirs.DeepseekV3RotaryEmbedding(theirs.DeepseekV3Config(**deepcopy(V3)))
    q, k = (torch.tensor(group[name])[None, None] for name in ("q", "k"))
    cos, sin = module(q, torch.tensor([group["positions"]]))
    turned = theirs.apply_rotary_pos_emb_interleave(q[..., 128:], k[..., 128:], cos, sin)
    logits = turned[0] @ turned[1].mT + q[..., :128] @ k[..., :128].mT
    near = torch.tensor(group["scores"]) / group["softmax_scale"]
    torch.testing.assert_close(logits[0, 0], near, rtol=1e-4, atol=2e-2)
    np.testing.assert_array_equal(np.array(group["rotated_q"])[:, :128], np.array(group["q"])[:, :128])


def test_the_numbers_are_those_of_the_formula():
    (group,) = vectors(LONG)["layers"]
    p, theta = np.array(group["positions"]), np.array(group["theta"])
    angle = p[:, None] * theta
    np.testing.assert_allclose(group["cos"], group["attention_factor"] * np.cos(angle), atol=1e-14)
    np.testing.assert_allclose(group["sin"], group["attention_factor"] * np.sin(angle), atol=1e-14)
    turned = [rope(np.array(group[x]), p, theta=theta, attention_factor=group["attention_factor"]) for x in ("q", "k")]
    np.testing.assert_allclose(group["rotated_q"], turned[0], atol=1e-13)
    np.testing.assert_allclose(group["rotated_k"], turned[1], atol=1e-13)
    np.testing.assert_allclose(group["scores"], turned[0] @ turned[1].T * 128**-0.5, atol=1e-12)
    assert group["query_scale"] is None


def test_cos_and_sin_are_of_the_layout_too():
    interleaved = vectors({"model_type": "cohere", "num_hidden_layers": 1, "rope_theta": 1e4})["layers"][0]
    assert interleaved["layout"] == "interleaved"
    angle = np.outer(interleaved["positions"], interleaved["theta"])
    np.testing.assert_allclose(interleaved["sin"], np.sin(angle), atol=1e-14)


def test_queries_that_are_scaled_by_position_say_so():
    (group,) = vectors(MINISTRAL)["layers"]
    assert group["query_scale"][0] == 1
    turned = [np.array(group[name]) for name in ("rotated_q", "rotated_k")]
    scaled = turned[0] * np.array(group["query_scale"])[:, None]
    np.testing.assert_allclose(group["scores"], group["softmax_scale"] * scaled @ turned[1].T, atol=1e-12)


def test_the_content_is_drawn_as_stated():
    state, numbers = 1, []
    for _ in range(6):
        state = (1103515245 * state + 12345) % 2**31
        numbers.append((state // 65536 % 129 - 64) / 64)
    assert "1103515245 state + 12345" in DRAWN
    assert "state // 65536 mod 129 - 64) / 64" in DRAWN
    assert drawn(2, 3, seed=1).flatten().tolist() == numbers
    (group,) = vectors(LONG)["layers"]
    q = torch.tensor(group["q"], dtype=torch.float64)
    assert torch.equal(q, drawn(len(group["positions"]), 128, seed=1)[0, 0])
    assert torch.equal(q.bfloat16().double(), q)


def faults():
    """Return functions that go wrong, each in one way, by the name of the fault."""
    (layer, *_) = plan(LONG).layers

    def turning(**changed):
        stated = {"theta": layer.theta, "attention_factor": layer.attention_factor} | changed
        start = stated.pop("start", 0)

        def rotate(q, k, positions):
            both = (rope(x.numpy(), positions.numpy() + start, **stated) for x in (q, k))
            return tuple(torch.tensor(x) for x in both)

        return rotate

    plain = 1e6 ** (-np.arange(0, 128, 2) / 128)
    return {
        "right": turning(),
        "layout": turning(layout="interleaved"),
        "YaRN dropped": turning(theta=plain, attention_factor=1.0),
        "factor dropped": turning(attention_factor=1.0),
        "factor twice": turning(attention_factor=layer.attention_factor**2),
        "base": turning(theta=plain * 0.99),
        "off by one": turning(start=1),
        "sign": turning(theta=-layer.theta),
        "keys stay": lambda q, k, p: (turning()(q, k, p)[0], k),
        "shape": lambda q, k, p: (turning()(q, k, p)[0], k[..., :2]),
    }


@pytest.mark.parametrize("fault", faults())
def test_faults_fail(fault):
    problems = check(faults()[fault], vectors(LONG))
    assert bool(problems) == (fault != "right")
    assert fault != "keys stay" or [problem[:9] for problem in problems] == ["rotated_k"]
    assert fault != "shape" or "has shape (1, 1, 8, 2), expected" in problems[0]


def test_of_several_axes_positions_have_several_numbers():
    config = {"model_type": "qwen2_5_vl_text", "num_hidden_layers": 1, "hidden_size": 256, "num_attention_heads": 2}
    config |= {"rope_theta": 1e6, "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}}
    (group,) = vectors(config)["layers"]
    assert np.array(group["positions"]).shape == (8, 3)
    axis = np.repeat([0, 1, 2], [16, 24, 24])
    angle = np.array(group["positions"])[:, axis] * np.array(group["theta"])
    np.testing.assert_allclose(group["cos"], np.cos(angle), atol=1e-14)
    (layer,) = plan(config).layers
    assert check(lambda q, k, p: (rotated(layer, q, p), rotated(layer, k, p)), vectors(config)) == []


def test_a_length_chooses_the_factors_of_longrope():
    config = {"model_type": "phi3", "hidden_size": 64, "num_attention_heads": 1, "num_hidden_layers": 1}
    config |= {"rope_theta": 1e4, "max_position_embeddings": 8192, "original_max_position_embeddings": 4096}
    config |= {"rope_scaling": {"type": "longrope", "short_factor": [1.0] * 32, "long_factor": [2.0] * 32}}
    short, long = (np.array(vectors(config, length)["layers"][0]["theta"]) for length in (None, 5000))
    np.testing.assert_allclose(short, 2 * long)


def test_of_a_model_with_parts_the_text_is_taken():
    config = {"model_type": "gemma3", "text_config": GEMMA}
    assert vectors(config)["layers"] == vectors(GEMMA)["layers"]


def test_a_model_that_does_not_rotate_has_none():
    with pytest.raises(ValueError, match="vectors: config must be of layers that rotate, got a gpt2 without"):
        vectors({"model_type": "gpt2"})


def test_the_command_writes_a_file_or_prints(tmp_path, capsys):
    config, file = tmp_path / "config.json", tmp_path / "vectors.json"
    config.write_text(json.dumps(LONG))
    assert main(["vectors", str(config), "-o", str(file)]) == 0
    assert capsys.readouterr().out.startswith(f"{file}: 1 type of layer")
    assert json.loads(file.read_text()) == vectors(LONG)
    assert main(["vectors", str(config)]) == 0
    assert json.loads(capsys.readouterr().out) == vectors(LONG)
    assert main(["vectors", str(tmp_path / "missing.json")]) == 1
    assert "config must be a file of JSON" in capsys.readouterr().err
