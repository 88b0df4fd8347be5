"""Write the entries of the zoo that come from classes of transformers, built without arguments.

python -m dev.zoo_from_transformers           print the entries
python -m dev.zoo_from_transformers --write   put them into docs/assets/data/models.json

A class that states no base gets 10,000 from the library. That says nothing about a model, so such an entry has no base.
"""

import importlib
import inspect
import json
import re
import sys
import warnings
from dataclasses import dataclass, field

from dev import ROOT

FILE = ROOT / "docs/assets/data/models.json"
CODE = "https://github.com/huggingface/transformers/blob/v5.23.0/src/transformers/models"
FALLBACK = {"rope_theta": 10_000.0, "rope_type": "default"}  # what a class gets that states nothing
SCALING = ("rope_type", "factor", "original_max_position_embeddings", "beta_fast", "beta_slow", "mscale")
SCALING += ("mscale_all_dim", "attention_factor", "low_freq_factor", "high_freq_factor", "truncate")
MAIN = ("full_attention", "indexed_attention", "hybrid", "main")  # the layers that see everything, if bases differ
SECOND = ("sliding_attention", "hybrid_sliding", "compress")
ATTENTION = {*MAIN, *SECOND, "heavily_compressed_attention", "compressed_sparse_attention"}


@dataclass
class Kind:
    """A class, and what its code decides that no field of it says."""

    name: str
    year: int
    folder: str
    config: str
    still: str = ""  # which layers that attend do not rotate: list, theta, seeing all, each, or none of them
    layout: str = "halves"
    note: str = ""
    fields: dict = field(default_factory=dict)  # of the config, from elsewhere
    sources: list = field(default_factory=list)  # of those fields


MINIMAX = "https://github.com/ml-explore/mlx-lm/pull/1398"
SLIME = "https://github.com/THUDM/slime/pull/1929"
KINDS = [
    Kind("Jamba v0.1", 2024, "jamba", "JambaConfig", "each"),
    Kind(
        "Apertus 8B",
        2025,
        "apertus",
        "ApertusConfig",
        note="Its scaling starts from 8,192 tokens; whether it trained so under this base, the class does not say.",
    ),
    Kind("EXAONE 4.0 32B", 2025, "exaone4", "Exaone4Config", "seeing all"),
    Kind("Trinity Mini", 2025, "afmoe", "AfmoeConfig", "seeing all"),
    Kind("LongCat Flash", 2025, "longcat_flash", "LongcatFlashConfig", layout="neighbors"),
    Kind("DeepSeek-V3.2", 2025, "deepseek_v32", "DeepseekV32Config", layout="neighbors"),
    Kind(
        "Kimi Linear 48B",
        2025,
        "kimi_linear",
        "KimiLinearConfig",
        "each",
        note="Its slice for positions has 64 channels, which no layer turns.",
    ),
    Kind(
        "MiniMax-M2",
        2025,
        "minimax_m2",
        "MiniMaxM2Config",
        note="Published files say rotary_dim, 64, which the class turns into a half.",
        fields={"rotary_dim": 64},
        sources=[SLIME],
    ),
    Kind("OLMo 3 7B", 2025, "olmo3", "Olmo3Config"),
    Kind(
        "Granite 4.0 hybrid",
        2025,
        "granitemoehybrid",
        "GraniteMoeHybridConfig",
        "each",
        note="Its attention rotates only if position_embedding_type says rope; the class says nothing.",
    ),
    Kind(
        "Ministral 3 8B",
        2025,
        "ministral3",
        "Ministral3Config",
        note="The trained length is the one that its scaling starts from.",
    ),
    Kind("MiMo-V2 Flash", 2025, "mimo_v2_flash", "MiMoV2FlashConfig"),
    Kind(
        "Nemotron 3 Nano 30B",
        2025,
        "nemotron_h",
        "NemotronHConfig",
        "each",
        note="The class stands for four layers, of which one attends; the model has more.",
    ),
    Kind(
        "DeepSeek-V4 Flash",
        2026,
        "deepseek_v4",
        "DeepseekV4Config",
        layout="neighbors",
        note="Keys are values, in one head; the last channels turn, and the output is turned back. "
        "Layers that compress the past have the second base, those with the window alone the first.",
    ),
    Kind("GLM-5", 2026, "glm_moe_dsa", "GlmMoeDsaConfig", layout="neighbors"),
    Kind(
        "GLM-5.3 Flash",
        2026,
        "glm5_next",
        "Glm5NextTextConfig",
        "each",
        note="Latent attention whose slice for positions has no channel.",
    ),
    Kind("Qwen4-Exp", 2026, "qwen4_exp", "Qwen4ExpTextConfig"),
    Kind(
        "MiniMax-M3",
        2026,
        "minimax_m3_vl",
        "MiniMaxM3VLTextConfig",
        note="The class has a rotary_dim of 64, and made without arguments turns all 128 channels.",
        fields={"rotary_dim": 64},
        sources=[MINIMAX],
    ),
    Kind(
        "Mistral Small 4",
        2026,
        "mistral4",
        "Mistral4Config",
        layout="neighbors",
        note="The trained length is the one that its scaling starts from.",
    ),
    Kind(
        "Mistral Large 4",
        2026,
        "mistral_large4",
        "MistralLarge4TextConfig",
        "list",
        "neighbors",
        note="Each frequency is multiplied by a learned number, which the class does not have. "
        "Its scaling starts from 512 tokens.",
    ),
    Kind(
        "Inkling",
        2026,
        "inkling",
        "InklingTextConfig",
        note="No rotation: a query mixes 16 profiles over the last 1,024 distances, 512 where layers have a window.",
    ),
    Kind(
        "Inkling 2 Small",
        2026,
        "inkling2",
        "Inkling2TextConfig",
        note="No rotation: a query mixes 16 profiles over the last 1,024 distances.",
    ),
    Kind(
        "Granite Swash 2B",
        2026,
        "granite_swa",
        "GraniteSWAConfig",
        "theta",
        note="A base of 0 in layer_rope_theta makes a layer without positions; the class has none.",
    ),
    Kind("Muse Spark", 2026, "muse_spark", "MuseSparkTextConfig", "theta"),
    Kind("Muse Glimmer 30B", 2026, "muse_glimmer", "MuseGlimmerTextConfig", "theta"),
    Kind("Laguna XS.2", 2026, "laguna", "LagunaConfig"),
    Kind("Step 3.7 Flash", 2026, "step3p7", "Step3p7TextConfig"),
    Kind("dots3 note", 2026, "dots3_note", "Dots3NoteTextConfig", layout="neighbors"),
    Kind("ZAYA1 8B", 2026, "zaya", "ZayaConfig"),
    Kind("LFM3 1.7B", 2026, "lfm3", "Lfm3Config", note="p-RoPE in the layers that see everything."),
    Kind(
        "Olmo Hybrid 7B",
        2026,
        "olmo_hybrid",
        "OlmoHybridConfig",
        "each",
        note="The class rotates its layers of attention; the released weights, says its code, have no RoPE.",
    ),
    Kind("K-EXAONE 236B", 2026, "exaone_moe", "ExaoneMoeConfig", "seeing all"),
    Kind("Command A+", 2026, "cohere2_moe", "Cohere2MoeConfig", "seeing all", "neighbors"),
    Kind("Flint", 2026, "flint", "FlintConfig", "seeing all"),
    Kind("Kolibri 1", 2026, "kolibri1", "Kolibri1Config", "seeing all"),
    Kind("Hy3", 2026, "hy_v3", "HYV3Config"),
    Kind("Hy4", 2026, "hy_v4", "HYV4Config"),
    Kind("A.X K1", 2026, "axk1", "AXK1Config", layout="neighbors"),
    Kind("A.X K2", 2026, "axk2", "AXK2Config", layout="neighbors"),
    Kind("Ling 3.0 Flash", 2026, "bailing_hybrid", "BailingHybridConfig", layout="neighbors"),
    Kind("Youtu-LLM 2B", 2026, "youtu", "YoutuConfig", layout="neighbors"),
    Kind("Solar Open 100B", 2026, "solar_open", "SolarOpenConfig"),
    Kind("Mellum 2 12B", 2026, "mellum", "MellumConfig"),
]


def defaults(kind: Kind) -> dict:
    """Return the fields of the class, built without arguments."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = importlib.import_module(f"transformers.models.{kind.folder}.configuration_{kind.folder}")
        config = getattr(module, kind.config)()
    return {**config.to_dict(), "layer_types": getattr(config, "layer_types", None)}


def entry(kind: Kind) -> dict:
    """Return a model's entry, its fields in the order of the file."""
    config = defaults(kind)
    main, second = _kinds_of_rope(config)
    rotates = not (kind.still == "each" or "rel_extent" in config)
    model = {"name": kind.name, "year": kind.year}
    model["encoding"] = "rope" if rotates else "profiles" if "rel_extent" in config else "none"
    model["head"] = _head(config)
    if rotates:
        model |= _rotation(config, main, kind) | {"layout": kind.layout}
    model |= _layers(config, kind, bool(second)) | _beside(config, second, model)
    sourced = model.keys() - {"name", "year"}
    longest = config.get("max_position_embeddings")
    model["transformers"] = {"class": f"transformers.models.{kind.folder}.configuration_{kind.folder}.{kind.config}"}
    model["transformers"] |= {"names": _checkpoint(kind), "head": model["head"]}
    if rotates:
        scaling = main.get("rope_type", "default")
        model["transformers"] |= {"base": main["rope_theta"], "longest": longest, "scaling": scaling}
    model["model_type"] = kind.folder
    if kind.note:
        model["note"] = kind.note
    model["sources"] = _sources(kind, sourced)
    return model


def _kinds_of_rope(config: dict) -> tuple[dict, dict]:
    rope = config.get("rope_parameters") or {}
    main = next((rope[name] for name in MAIN if name in rope), rope)
    second = next((rope[name] for name in SECOND if name in rope), {})
    return main, second if second.get("rope_theta") != main.get("rope_theta") else {}


def _head(config: dict) -> int:
    if config.get("kv_lora_rank"):
        return config["qk_nope_head_dim"] + config["qk_rope_head_dim"]
    return config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]


def _turning(config: dict, rope: dict) -> int:
    if config.get("kv_lora_rank"):
        return config["qk_rope_head_dim"]
    return int(rope.get("partial_rotary_factor", 1) * _head(config))


def _rotation(config: dict, rope: dict, kind: Kind) -> dict:
    """Return the channels that turn, and what from_config needs, if the class states its base."""
    turning = kind.fields.get("rotary_dim") or _turning(config, rope)
    stated = {key: rope[key] for key in FALLBACK if key in rope} != FALLBACK or "compress_rope_theta" in config
    if not stated:
        return {"turning": turning}
    if rope.get("rope_type") == "proportional":
        return {"turning": turning, "config": {"rope_parameters": rope}}
    needed = {"rope_theta": rope["rope_theta"], **kind.fields}
    if config.get("kv_lora_rank"):
        needed["qk_rope_head_dim"] = turning
    elif "partial_rotary_factor" in rope:
        needed["partial_rotary_factor"] = rope["partial_rotary_factor"]
    if rope.get("rope_type", "default") == "default":
        return {"turning": turning, "config": needed}
    longest = config["max_position_embeddings"]
    needed["rope_scaling"] = {key: rope[key] for key in SCALING if key in rope}
    rotation = {"turning": turning, "config": needed | {"max_position_embeddings": longest}}
    if kind.folder not in ("apertus", "mistral_large4"):  # see their notes
        rotation |= {"trained": rope["original_max_position_embeddings"], "claimed": longest}
    return rotation


def _layers(config: dict, kind: Kind, bases_differ: bool) -> dict:
    """Count layers that rotate, that attend without positions, and that do not attend."""
    types = config["layer_types"] or ["full_attention"] * config.get("num_hidden_layers", 0)
    if kind.folder in ("nemotron_h", "granitemoehybrid"):  # defaults of a toy
        return {}
    attend = [layer in ATTENTION or "rel_extent" in config for layer in types]
    still = _still(config, kind, types, attend)
    turning = [a and not s for a, s in zip(attend, still, strict=True)]
    windows = [layer in SECOND or layer == "hybrid_sliding" for layer in types]
    n = len(types)
    counts = {}
    if bases_differ and any(windows):  # the first base is that of the layers that see everything
        turning = [t and not w for t, w in zip(turning, windows, strict=True)]
    if 0 < sum(turning) < n and "rel_extent" not in config:
        counts["rotated"] = f"{sum(turning)} of {n}"
    if any(still):
        counts["nope"] = f"{sum(still)} of {n}"
    if not all(attend):
        counts["recurrent"] = f"{n - sum(attend)} of {n}"
    if any(still) and any(windows) and windows == turning:
        counts["window"] = config["sliding_window"]
    return counts


def _still(config: dict, kind: Kind, types: list[str], attend: list[bool]) -> list[bool]:
    """Tell for each layer whether it attends without positions."""
    if kind.still == "list":
        return [not turns for turns in config["no_rope_layers"]]  # 1 means: it rotates
    if kind.still == "theta":
        return [base == 0 for base in config["layer_rope_theta"]]
    if kind.still == "seeing all":
        return [layer in MAIN for layer in types]
    if kind.still == "each":
        return attend
    return [False] * len(types)


def _beside(config: dict, second: dict, model: dict) -> dict:
    """Return the latent, the second base, the query scale and the profiles, as far as there are any."""
    more = {}
    if config.get("kv_lora_rank"):
        more["mla"] = {"rope": config["qk_rope_head_dim"], "content": config["qk_nope_head_dim"]}
        more["mla"]["latent"] = config["kv_lora_rank"]
    if second:
        more["second"] = {"rope_theta": second["rope_theta"], "turning": _turning(config, second)}
        types = config["layer_types"] or []
        there = sum(kind in SECOND or "compressed" in kind for kind in types)
        if there:
            more["second"]["layers"] = f"{there} of {len(types)}"
        if "compress_rope_theta" not in config and config.get("sliding_window"):
            more["second"]["window"] = config["sliding_window"]
    strength = (config.get("rope_parameters") or {}).get("llama_4_scaling_beta")
    if strength:
        more["query_scale"] = {"kind": "ministral", "original_length": model["trained"], "strength": strength}
    elif config.get("log_scaling_n_floor"):
        length, strength = config["log_scaling_n_floor"], config["log_scaling_alpha"]
        more["query_scale"] = {"kind": "inkling", "original_length": length, "strength": strength}
    elif model["name"] == "Mistral Large 4":
        more["query_scale"] = {"kind": "head"}
    if "rel_extent" in config:
        more["size"] = config["rel_extent"]
    return more


def _checkpoint(kind: Kind) -> str:
    module = importlib.import_module(f"transformers.models.{kind.folder}.configuration_{kind.folder}")
    source = inspect.getsource(module)
    before = source[: source.index(f"class {kind.config}(")]
    return re.findall(r'checkpoint="([^"]+)"', before)[-1]


def _sources(kind: Kind, keys: set) -> list:
    """Return the sources of an entry, each with the keys that it says."""
    of_code = keys & {"encoding", "layout", "nope", "query_scale", "rotated"}
    of_class = keys - {"encoding", "layout"}
    if kind.fields:
        of_class -= {"turning"}
    sources = [
        {"kind": "default", "url": f"{CODE}/{kind.folder}/configuration_{kind.folder}.py", "says": sorted(of_class)},
        {"kind": "code", "url": f"{CODE}/{kind.folder}/modeling_{kind.folder}.py", "says": sorted(of_code)},
    ]
    return sources + [{"kind": "documentation", "url": url, "says": ["config", "turning"]} for url in kind.sources]


def render(model: dict) -> str:
    """Return an entry as the file writes it: a line a field, a line a source."""
    lines = []
    for key, value in model.items():
        if key == "sources":
            rows = ",\n".join(f"    {json.dumps(row, ensure_ascii=False)}" for row in value)
            lines.append(f'   "sources": [\n{rows}\n   ]')
        else:
            lines.append(f'   "{key}": {json.dumps(value, ensure_ascii=False)}')
    return "  {\n" + ",\n".join(lines) + "\n  }"


def write() -> None:
    """Replace the entries of classes, which stand last, by those of this run."""
    text = FILE.read_text(encoding="utf-8")
    models = json.loads(text)["models"]
    first = next((m["name"] for m in models if "model_type" in m), None)
    end = text.index(f'  {{\n   "name": "{first}"') if first else text.rindex("\n ]\n}") + 1
    kept = text[:end].rstrip().rstrip(",")
    FILE.write_text(kept + ",\n" + ",\n".join(render(entry(kind)) for kind in KINDS) + "\n ]\n}\n", encoding="utf-8")


if __name__ == "__main__":
    if "--write" in sys.argv:
        write()
    else:
        print(*(render(entry(kind)) for kind in KINDS), sep=",\n")
