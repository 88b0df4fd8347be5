"""The types of layers and which of them rotate, by each form of rule, against what transformers 5.23 makes of them."""

import pytest

from dev.model_types import modules
from posenc.config import model_types
from posenc.config.layer_types import RENAMED, layer_types_of, unrotated_reasons, window_of
from posenc.config.plan import plan
from tests.peers import peer

FACTS = model_types.facts()
LETTERS = {
    "F": "full_attention",
    "S": "sliding_attention",
    "L": "linear_attention",
    "I": "indexed_attention",
    "K": "chunked_attention",
    "W": "window_attention",
    "Y": "hybrid",
    "y": "hybrid_sliding",
    "C": "conv",
    "M": "mlp",
    "E": "moe",
    "c": "compressed_sparse_attention",
    "h": "heavily_compressed_attention",
}
KIMI = {"full_attn_layers": [4, 8], "kda_layers": [1, 2, 3, 5, 6, 7], "num_heads": 4, "head_dim": 8}
KIMI |= {"short_conv_kernel_size": 4}
QWEN = {"sliding_window": 16, "max_window_layers": 2}

# model type, fields of the configuration beside the number of layers, the type of each layer as a letter
TYPES = [
    # all
    ("ministral", {}, "SSSS"),
    ("deepseek_v32", {}, "III"),
    # period, offset
    ("gpt_oss", {}, "SFSFS"),
    ("granite_swa", {}, "FSSSFS"),
    ("olmo3", {}, "SSSFSSSFS"),
    # period_key
    ("gemma3_text", {}, "SSSSSFSSSSSFS"),
    ("gemma3_text", {"sliding_window_pattern": 4}, "SSSFSSSFS"),
    ("modernbert", {}, "FSSFSSF"),
    ("modernbert", {"global_attn_every_n_layers": 4}, "FSSSFSSSF"),
    ("qwen3_next", {"full_attention_interval": 3}, "LLFLLFL"),
    # offset_key
    ("jamba", {}, "LLLLFLLLLLLLFLLL"),
    ("jamba", {"attn_layer_period": 4, "attn_layer_offset": 1}, "LFLLLFLLL"),
    # from_end
    ("muse_spark_text", {}, "SSFSSSF"),
    ("muse_spark_text", {}, "SSSFSSSF"),
    # also; last; both
    ("mimo_v2_flash", {}, "FSSSSFSS"),
    ("gemma4_text", {}, "SSSSSFSF"),
    ("embedding_gemma2_text", {}, "SSSSSFSF"),
    ("flint", {}, "FFSSSFSSF"),
    # first, cycle
    ("lfm3", {}, "CCFCSCFCSC"),
    # by_list, counted_from
    ("lfm2", {"full_attn_idxs": [2, 5]}, "CCFCCFC"),
    ("kimi_linear", {"linear_attn_config": KIMI}, "LLLFLLLF"),
    # default_period
    ("bamba", {}, "LLLL"),
    ("bamba", {"attn_layer_indices": [1, 3]}, "LFLFL"),
    ("inkling_text", {}, "yyyyyYyyyyyYy"),
    ("inkling_text", {"local_layer_ids": [1, 2]}, "YyyYY"),
    # marks; period_key
    ("llama4_text", {}, "KKKFKKKFK"),
    ("llama4_text", {"no_rope_layers": [1, 0, 0, 1]}, "KFFK"),
    ("llama4_text", {"no_rope_layer_interval": 3}, "KKFKKFK"),
    # map; without_list
    ("deepseek_v4", {"compress_ratios": [0, 4, 128]}, "Sch"),
    ("deepseek_v4", {}, "hhhchc"),
    ("nemotron_h", {"hybrid_override_pattern": "M-*E"}, "LMFE"),
    # window_from_layer
    ("qwen2", QWEN | {"use_sliding_window": True}, "FFSSS"),
    ("qwen2", QWEN | {"use_sliding_window": False}, "FFFF"),
    ("qwen2", QWEN, "FFFF"),
    # layer_types: of the layers alone, without those that predict further tokens
    ("step3p5", {"layer_types": ["full_attention"] + ["sliding_attention"] * 2, "num_nextn_predict_layers": 1}, "FS"),
]
# the same where the configuration class has no layer_types, by the code of the model
TYPES_OF_CODE = [
    # default_list: `if layer_num in self.fullatt_block_indexes`
    ("qwen2_5_vl_vision", {}, "WWWWWWWFWWWWWWWFW"),
    ("qwen2_5_vl_vision", {"fullatt_block_indexes": [0, 2]}, "FWFW"),
    # no period, as in EXAONE 4 of 1.2B: every layer sees all
    ("exaone4", {"sliding_window_pattern": None}, "FFFF"),
    ("exaone4", {"sliding_window_pattern": 0}, "FFFF"),
    # older names
    ("granitemoehybrid", {"layer_types": ["mamba", "attention", "multi", "recurrent"]}, ["L", "F", "multi", "L"]),
    ("axk2", {"layer_types": ["deepseek_sparse_attention", "qwen_sparse_attention"]}, "II"),
    # the list alone counts the layers
    ("nemotron_h", {"layers_block_type": ["mamba", "moe", "attention"], "num_hidden_layers": None}, "LEF"),
    # a model type without a rule
    ("llama", {}, "FFF"),
]


def config_of(model_type, fields, count):
    return model_types.Config({"num_hidden_layers": count} | fields, model_type, FACTS[model_type])


@pytest.mark.parametrize(("model_type", "fields", "letters"), TYPES + TYPES_OF_CODE, ids=str)
def test_each_form_of_rule_gives_the_types_of_its_code(model_type, fields, letters):
    expected = [LETTERS.get(letter, letter) for letter in letters]
    assert layer_types_of(config_of(model_type, fields, len(letters))) == expected


@pytest.mark.parametrize(("model_type", "fields", "letters"), TYPES, ids=str)
def test_transformers_gives_the_types_that_stand_here(model_type, fields, letters):
    peer("transformers")
    config = modules.mapping()[model_type](num_hidden_layers=len(letters), **fields)
    types = [RENAMED.get(layer_type, layer_type) for layer_type in config.layer_types]
    assert types == [LETTERS[letter] for letter in letters]


def test_older_names_are_those_of_transformers():
    renamed = peer("transformers.configuration_utils")._LEGACY_LAYER_TYPE_REMAP
    assert {name: RENAMED.get(name) for name in renamed} == renamed


def test_each_key_of_a_rule_stands_in_the_table():
    """A new form of rule needs a row."""
    for name, tables in (("layers", (TYPES, TYPES_OF_CODE)), ("nope", (ROTATING,))):
        tested = {row[0] for table in tables for row in table}
        rules = {model_type: known.get(name) for model_type, known in FACTS.items()}
        keys = {key for rule in rules.values() if isinstance(rule, dict) for key in rule}
        assert keys == {
            key for model_type in tested if isinstance(rules[model_type], dict) for key in rules[model_type]
        }


# model type, fields, and whether each layer rotates by the code of the model: R if so
ROTATING = [
    # types: `if self.sliding_window is not None` it rotates
    ("cohere2", {}, "RRR.R"),
    ("afmoe", {}, "RRR.R"),
    # if: `self.sliding_window is None or self.is_sliding`
    ("exaone4", {"sliding_window": 16}, "RRR.R"),
    ("exaone4", {"sliding_window": None, "layer_types": ["full_attention"] * 3}, "RRR"),
    # unless_list: `position_embeddings if layer_rope_theta[i] else None`
    ("muse_spark_text", {}, "RR.RRR."),
    ("muse_spark_text", {"layer_rope_theta": [1e4, 0, 1e4, 1e4]}, "R.RR"),
    # unless: a rotary module only if position_embedding_type is "rope"
    ("granitemoehybrid", {"layer_types": ["mamba", "attention"], "position_embedding_type": "rope"}, ".R"),
    ("granitemoehybrid", {"layer_types": ["mamba", "attention"], "position_embedding_type": None}, ".."),
    ("zamba2", {"layer_types": ["hybrid"] * 2, "use_mem_rope": True}, "RR"),
    ("zamba2", {"layer_types": ["hybrid"] * 2, "use_mem_rope": False}, ".."),
    # by_list: `self.use_rope = config.no_rope_layers[layer_idx]`
    ("smollm3", {}, "RRR.RRR.R"),
    ("smollm3", {"no_rope_layer_interval": 2}, "R.R.R"),
    ("smollm3", {"no_rope_layers": [0, 1, 1, 0]}, ".RR."),
    ("llama4_text", {"no_rope_layers": [1, 0, 1]}, "R.R"),
    # cross_attention: `if layer_idx in self.cross_attention_layers`
    ("mllama_text_model", {}, "RRR.RRRR.R"),
    ("mllama_text_model", {"cross_attention_layers": [0, 2]}, ".R.R"),
    # no softmax attention
    ("lfm3", {}, "..R.R.R."),
    ("qwen3_next", {}, "...R...R"),
]


@pytest.mark.parametrize(("model_type", "fields", "letters"), ROTATING, ids=str)
def test_those_layers_rotate_that_the_code_rotates(model_type, fields, letters):
    layers = plan({"model_type": model_type, "num_hidden_layers": len(letters), "rope_theta": 1e4} | fields).layers
    assert "".join("." if layer.theta is None else "R" for layer in layers) == letters


@pytest.mark.parametrize(
    ("model_type", "fields", "reason"),
    [
        ("cohere2", {}, "full_attention of cohere2 does not rotate"),
        ("smollm3", {}, "0 in no_rope_layers means no RoPE"),
        ("granitemoehybrid", {"layer_types": ["attention"] * 4}, "position_embedding_type is not rope"),
        ("mllama_text_model", {}, "cross-attention, whose keys are of a picture"),
        ("jamba", {}, "no softmax attention here"),
    ],
    ids=str,
)
def test_a_layer_that_does_not_rotate_says_why(model_type, fields, reason):
    config = config_of(model_type, fields, 4)
    assert unrotated_reasons(config, layer_types_of(config))[3] == reason


@pytest.mark.parametrize(
    ("model_type", "fields", "windows"),
    [
        ("gpt_oss", {"sliding_window": 8}, [8, None, 8]),
        ("llama4_text", {"attention_chunk_size": 8, "no_rope_layers": [1, 0]}, [8, None]),
        ("inkling_text", {"sliding_window": 8, "local_layer_ids": [1]}, [None, 8]),
        ("unlimited_ocr_text", {"sliding_window": 8}, [8, 8]),
        ("qwen2_5_vl_vision", {"sliding_window": 8, "fullatt_block_indexes": [1]}, [8, None]),
        # no type says so
        ("mistral", {"sliding_window": 8}, [8, 8]),
        ("mistral", {"sliding_window": None}, [None, None]),
        ("mistral", {"sliding_window": 0}, [None, None]),
        ("llama", {"sliding_window": 8}, [None, None]),
    ],
    ids=str,
)
def test_a_window_is_that_of_the_type(model_type, fields, windows):
    config = config_of(model_type, fields, len(windows))
    assert [window_of(config, layer_type) for layer_type in layer_types_of(config)] == windows


@pytest.mark.parametrize(
    ("model_type", "fields", "name", "got"),
    [
        ("llama", {"layer_types": ["full_attention"] * 3}, "layer_types", 3),
        ("llama", {"layer_types": ["full_attention"] * 5}, "layer_types", 5),
        ("step3p5", {"layer_types": ["full_attention"] * 6, "num_nextn_predict_layers": 1}, "layer_types", 6),
        ("llama4_text", {"no_rope_layers": [1, 0]}, "no_rope_layers", 2),
        ("smollm3", {"no_rope_layers": [1, 0]}, "no_rope_layers", 2),
        ("deepseek_v4", {"compress_ratios": [0, 4]}, "compress_ratios", 2),
        ("nemotron_h", {"hybrid_override_pattern": "M*"}, "hybrid_override_pattern", 2),
    ],
    ids=str,
)
def test_a_list_that_is_not_one_for_each_layer_is_refused(model_type, fields, name, got):
    message = f"plan: {name} must have 4 values, one for each layer, got {got}; correct it or num_hidden_layers"
    with pytest.raises(ValueError, match=f"^{message}$"):
        plan({"model_type": model_type, "num_hidden_layers": 4} | fields)


def test_a_model_type_without_a_known_rule_asks_for_its_types():
    with pytest.raises(ValueError, match="plan: layer_types must be in a config of zamba2, got None; its code mixes"):
        plan({"model_type": "zamba2", "num_hidden_layers": 4})
