"""What no measurement finds: facts that were read in the code of transformers, with the place where they stand."""

from collections import defaultdict

SLICES = {  # the channels that turn
    "end": "axk1 axk2 bailing_hybrid deepseek_v2 deepseek_v3 deepseek_v32 dots3_note_text glm4_moe_lite glm_moe_dsa "
    "hy_v4 longcat_flash minicpm3 mistral4 mistral_large4_text youtu kimi_linear glm5_next_text",
    "trailing": "deepseek_v4",
}
"""Queries and keys end in the part that turns: `torch.split(q, [qk_nope_head_dim, qk_rope_head_dim])`."""

SCALES = {
    "yarn": "axk1 axk2 bailing_hybrid deepseek_v2 deepseek_v3 deepseek_v32 glm4_moe_lite glm_moe_dsa hy_v4 "
    "longcat_flash minicpm3 mistral4 mistral_large4_text youtu",
    "attention_multiplier": "granite granitemoe granitemoeshared granitemoehybrid granite_swa granitemoe_swa "
    "hyperclovax granite4_vision_text granite_docling_text",
    "query_pre_attn_scalar": "gemma2 gemma3_text t5_gemma_module vaultgemma t5gemma2_text t5gemma2_decoder "
    "t5gemma2_encoder",
    "inverse": "inkling_text",
}
"""What `self.scaling` is in the attention class, where it is not 1/sqrt(head_dim)."""

ONES = [
    "gemma3n_text",
    "gemma4_text",
    "gemma4_unified_text",
    "diffusion_gemma_text",
    "embedding_gemma2_text",
    "t5",
    "mt5",
    "umt5",
    "longt5",
    "dia_encoder",
    "dia_decoder",
    "gpt_neo",
    "switch_transformers",
    "pop2piano",
]

WINDOW_IN_ALL_LAYERS = [
    "mistral",
    "mixtral",
    "phi3",
    "phi4_multimodal",
    "starcoder2",
    "olmoe",
    "ministral3",
    "phimoe",
    "minimax",
    "voxtral_realtime_text",
    "voxtral_realtime_encoder",
    "mimi",
    "kyutai_speech_to_text",
    "moshi",
    "pocket_tts_audio_tokenizer_encoder",
]
"""All layers see the window: attention is called with `sliding_window=getattr(self.config, "sliding_window", None)`."""

WINDOW_FROM_LAYER = [
    "qwen2",
    "qwen3",
    "qwen2_vl_text",
    "qwen2_5_vl_text",
    "qwen2_5_omni_text",
    "qwen2_5_omni_talker",
    "dots1",
    "qwen3_omni_moe_talker_code_predictor",
    "deepseek_ocr2_encoder",
]
"""`i >= max_window_layers` see the window, if `use_sliding_window`."""

BLOCKS = {"by_list": "fullatt_block_indexes", "counted_from": 0, "default_list": [7, 15, 23, 31]}
BLOCKS |= {"type": "full_attention", "other": "window_attention"}

LEARNED = [
    "albert",
    "bert",
    "bert-generation",
    "big_bird",
    "convbert",
    "distilbert",
    "electra",
    "ernie",
    "gpt2",
    "gpt-sw3",
    "gpt_bigcode",
    "openai-gpt",
    "imagegpt",
    "megatron-bert",
    "roc_bert",
    "splinter",
    "squeezebert",
    "visual_bert",
    "rembert",
    "clip_text_model",
    "chinese_clip_text_model",
    "clipseg_text_model",
    "siglip_text_model",
    "siglip2_text_model",
    "metaclip_2_text_model",
    "owlvit_text_model",
    "owlv2_text_model",
    "groupvit_text_model",
    "xclip_text_model",
    "blip_text_model",
    "align_text_model",
]
"""`nn.Embedding(config.max_position_embeddings, …)` is added to the embeddings of tokens."""

ROBERTAS = [
    "roberta",
    "roberta-prelayernorm",
    "xlm-roberta",
    "xlm-roberta-xl",
    "camembert",
    "data2vec-text",
    "xmod",
    "ibert",
    "altclip_text_model",
]
"""Positions start behind that of the padding: `create_position_ids_from_input_ids`."""

OPTS = ["opt", "biogpt"]
"""The table has two rows more: `self.offset = 2`."""

WITHOUT_POSITION = {
    "full attention without RoPE: the recurrent layers between carry the order": "jamba nemotron_h zamba kimi_linear "
    "glm5_next_text",
    "no attention: each token meets the past in a state": "mamba mamba2 falcon_mamba rwkv xlstm",
    "attends over codebooks, not over time, and without position: use_rope=False": "moshi_depth",
}

HALVES = {"sliding_attention": ("rope_local_base_freq", 1e4, False), "full_attention": ("rope_theta", 1e6, True)}
BERTS = {"sliding_attention": ("local_rope_theta", 1e4, True), "full_attention": ("global_rope_theta", 1.6e5, True)}
OLMOS = {"sliding_attention": ("rope_theta", 5e5, False), "full_attention": ("rope_theta", 5e5, True)}
FOURS = {"main": ("rope_theta", 1e4, False), "compress": ("compress_rope_theta", 1.6e5, True)}
BASES = {  # the two bases of older files: key, default of the code, and whether rope_scaling is for it
    "gemma3_text": HALVES,
    "gemma3n_text": HALVES,
    "t5gemma2_text": HALVES,
    "t5gemma2_decoder": HALVES,
    "modernbert": BERTS,
    "modernbert-decoder": BERTS,
    "olmo3": OLMOS,
    "deepseek_v4": FOURS,
}

BY_LIST = {"by_list": "no_rope_layers", "period_key": "no_rope_layer_interval", "default_period": 4}
LOCAL = {
    "by_list": "local_layer_ids",
    "counted_from": 0,
    "default_period": 6,
    "type": "hybrid_sliding",
    "other": "hybrid",
}
NO_ALIBI = {"key": "alibi", "value": False, "to": {"encoding": "other", "why": "without ALiBi it adds learned rows"}}
FULL = {"types": ["full_attention"]}
HYBRID = {"types": ["full_attention"], "if": "sliding_window"}
LETTERS = {"M": "linear_attention", "-": "mlp", "E": "moe", "*": "full_attention"}
GEMMAS = ["gemma4_text", "gemma4_unified_text", "diffusion_gemma_text", "embedding_gemma2_text"]
NUMBERS = {"type": "full_attention", "other": "linear_attention"}
RATIOS = {"0": "sliding_attention", "4": "compressed_sparse_attention"}
DEEPSEEK_V4 = {"map": "compress_ratios", "to": RATIOS, "other": "heavily_compressed_attention"}
DEEPSEEK_V4["without_list"] = {
    "first": ["heavily_compressed_attention"] * 2,
    "cycle": ["heavily_compressed_attention", "compressed_sparse_attention"],
}
RULES = {
    "llama4_text": {
        "layers": BY_LIST | {"type": "chunked_attention", "other": "full_attention"},
        "nope": BY_LIST,
        "query_scale": "llama4",
    },
    "smollm3": {"nope": BY_LIST, "layers": None},
    "mistral_large4_text": {"nope": BY_LIST, "query_scale": "head"},
    "ministral3": {"query_scale": "ministral"},
    "mistral4": {"query_scale": "ministral"},
    "beam": {"query_scale": "power"},
    "cohere2": {"nope": FULL},
    "cohere2_moe": {"nope": FULL},
    "afmoe": {"nope": FULL},
    "flint": {"nope": FULL},
    "exaone4": {"nope": HYBRID},
    "exaone4_5_text": {"nope": HYBRID},
    "exaone_moe": {"nope": HYBRID},
    "kolibri1": {"nope": HYBRID},
    "muse_spark_text": {"nope": FULL | {"unless_list": "layer_rope_theta"}},
    "muse_glimmer_text": {"nope": FULL | {"unless_list": "layer_rope_theta"}},
    "granitemoehybrid": {"nope": {"unless": ["position_embedding_type", "rope"]}},
    "zamba2": {"nope": {"unless": ["use_mem_rope", True]}, "layers": "unknown"},
    "deepseek_v4": {
        "labels": {
            "sliding_attention": "main",
            "compressed_sparse_attention": "compress",
            "heavily_compressed_attention": "compress",
        },
        "layers": DEEPSEEK_V4,
        "rope_values": {"yarn": {"attention_factor": 1.0}},
        "share": 0.125,
    },
    "jamba": {
        "layers": {
            "period": 8,
            "offset": 4,
            "period_key": "attn_layer_period",
            "offset_key": "attn_layer_offset",
            "type": "full_attention",
            "other": "linear_attention",
        },
    },
    "lfm2": {"layers": NUMBERS | {"by_list": "full_attn_idxs", "counted_from": 0, "other": "conv"}},
    "lfm2_moe": {"layers": NUMBERS | {"by_list": "full_attn_idxs", "counted_from": 0, "other": "conv"}},
    "bamba": {"layers": NUMBERS | {"by_list": "attn_layer_indices", "counted_from": 0, "default_period": 1}},
    "kimi_linear": {
        "layers": NUMBERS | {"by_list": "full_attn_layers", "counted_from": 1},
        "inside": {"full_attn_layers": "linear_attn_config"},
    },
    "lfm3": {
        "layers": {
            "cycle": ["sliding_attention", "conv", "full_attention", "conv"],
            "first": ["conv"],
        },
    },
    "esm": {
        "encoding": "learned",
        "offset": 2,
        "rows_include_offset": True,
        "switch": {
            "key": "position_embedding_type",
            "value": "rotary",
            "to": {"encoding": "rope", "layout": "half", "base": 1e4},
        },
    },
    "longcat_flash": {"names": {"num_hidden_layers": "num_layers"}},
    "zamba": {"layers": {"all": "hybrid"}},
    "nemotron_h": {"layers": {"map": "hybrid_override_pattern", "to": LETTERS, "other": "full_attention"}},
    "dbrx": {"inside": {"rope_theta": "attn_config"}},
    "mllama_text_model": {
        "nope": {"cross_attention": "cross_attention_layers", "default_list": [3, 8, 13, 18, 23, 28, 33, 38]}
    },
    "step3p5": {"default_rope": None, "unscaled_types": ["sliding_attention"]},
    **{name: {"layer_sizes": {"full_attention": {"head_dim": ["global_head_dim", 512]}}} for name in GEMMAS},
    "gptj": {"encoding": "rope", "layout": "interleaved", "base": 1e4},
    "codegen": {"encoding": "rope", "layout": "interleaved", "base": 1e4},
    "roformer": {"encoding": "rope", "layout": "interleaved", "base": 1e4},
    "falcon": {"switch": {"key": "alibi", "value": True, "to": {"encoding": "alibi"}}},
    "glm4v_text": {"encoding": "rope", "layout": "interleaved", "mrope": "chunked", "sections": [8, 12, 12]},
    "glm4v_moe_text": {"encoding": "rope", "layout": "half", "mrope": "chunked", "sections": [8, 12, 12]},
    "glm_image_text": {"encoding": "rope", "layout": "half", "mrope": "chunked", "sections": [8, 12, 12]},
    "ernie4_5_vl_moe_text": {
        "encoding": "rope",
        "layout": "interleaved",
        "mrope": "alternating",
        "sections": [22, 22, 20],
    },
    "hunyuan_vl_text": {"encoding": "rope", "layout": "half", "mrope": "chunked"},
    "paddleocr_vl_text": {"encoding": "rope", "layout": "half", "mrope": "chunked", "sections": [16, 24, 24]},
    "cohere_compass_text": {"encoding": "rope", "layout": "half", "mrope": "interleaved", "sections": [24, 20, 20]},
    "qwen3_omni_moe_text": {"mrope": "interleaved", "sections": [24, 20, 20]},
    "qwen3_omni_moe_talker_text": {"mrope": "interleaved", "sections": [24, 20, 20]},
    "qwen4_exp_text": {"mrope": "interleaved", "sections": [11, 11, 10]},
    "mobilebert": {"encoding": "learned", "width_key": "hidden_size"},
    "bloom": {"encoding": "alibi"},
    "mpt": {"encoding": "alibi", "inside": {"alibi": "attn_config"}, "switch": NO_ALIBI},
    "inkling_text": {"encoding": "profiles", "layers": LOCAL},
    "inkling2_text": {"encoding": "profiles", "layers": LOCAL},
    "exaone4_5_vision": {"layers": BLOCKS},
    "qwen2_5_vl_vision": {"layers": BLOCKS},
    "qwen2_5_omni_vision_encoder": {"layers": BLOCKS},
    "sam3_vit_model": {"layers": BLOCKS | {"by_list": "global_attn_indexes"}},
    "t5": {"encoding": "t5"},
    "mt5": {"encoding": "t5"},
    "umt5": {"encoding": "t5", "table_per_layer": True},
    "switch_transformers": {"encoding": "t5"},
    "minimax_m3_vl_text": {"unread_keys": ["rotary_dim"]},
}


def facts(measured):
    """Return for each model type what is added to its measured facts, or put in their place."""
    more = defaultdict(dict)
    for key, table in (("slice", SLICES), ("scale", SCALES)):
        for value, names in table.items():
            for name in names.split():
                more[name][key] = value
    for name in ONES:
        more[name]["scale"] = 1.0
    for name in WINDOW_IN_ALL_LAYERS:
        more[name]["window"] = "all"
    for name in WINDOW_FROM_LAYER:
        more[name]["layers"] = {"window_from_layer": True}
    for name in LEARNED:
        more[name]["encoding"] = "learned"
    for name in ROBERTAS:
        more[name] |= {"encoding": "learned", "offset": 2, "rows_include_offset": True}
    for name in OPTS:
        more[name] |= {"encoding": "learned", "offset": 2}
    for why, names in WITHOUT_POSITION.items():
        for name in names.split():
            more[name] |= {"encoding": "none", "why": why}
    for name, rules in BASES.items():
        keys = ("key", "base", "scaled")
        more[name]["bases"] = {layer_type: dict(zip(keys, rule, strict=True)) for layer_type, rule in rules.items()}
    for name, rule in RULES.items():
        more[name] |= rule
    return {name: added for name, added in more.items() if name in measured}
