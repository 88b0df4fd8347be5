"""What the code of a model does with position where posenc does not read it, in words: told by its classes."""

import ast
import re
from functools import cache
from pathlib import Path

from dev.model_types import modules

SIGNS = [  # the first that is found in the code of a configuration's classes
    ("ALiBi's slopes", r"alibi"),
    ("buckets of distances, as T5", r"relative_attention_bias|RelativePositionBias|compute_bias"),
    ("a table of offsets in each window, as Swin", r"relative_position_bias_table|relative_position_index"),
    ("learned offsets of rows and columns, as SAM", r"rel_pos_h|add_decomposed_rel_pos"),
    ("attention to distances, as DeBERTa", r"Disentangled"),
    ("relative sines, as Transformer-XL", r"RelPositional|RelPosition|relative_k_proj|linear_pos|rel_shift|r_w_bias"),
    ("keys of distances, as Shaw", r"distance_embedding|rel_pos_emb|relative_attention_key|emb_rel_k"),
    ("a rotation by rows and columns", r"VisionRotary|apply_rotary_pos_emb_vision|rotary_pos_emb|RopePosition|RoPE"),
    ("a rotation", r"apply_rotary|rotary_emb"),
    ("a convolution over tokens, as wav2vec 2.0", r"PositionalConv|pos_conv"),
    ("sines and cosines added", r"[Ss]inusoid|SinePosition|sincos|sin_cos|PositionalEncoding"),
    ("learned rows added", r"LearnedPosition|(position|pos)_embed\w* = (nn|torch)|position_embeddings? = |wpe = "),
    ("learned rows added", r"position_embed|pos_embed"),
]


def why(config_class):
    """Return in a few words how position enters, as far as the names in the code tell."""
    source = "\n".join(_sources(config_class))
    for topic, sign in SIGNS:
        if re.search(sign, source):
            return f"its code mentions {topic}"
    return "no positions of text were found in its code"


def _sources(config_class):
    """Yield the code of the classes that take this configuration, and of those that they make."""
    module = modules.modeling(config_class)
    if module is None:
        return
    texts = _classes(module.__file__)
    texts = {name: text for name, text in texts.items() if not name.endswith("PreTrainedModel")}  # they speak of all
    wanted = [name for name in texts if modules.takes(getattr(module, name, None), config_class)]
    visited = set()
    while wanted:
        name = wanted.pop()
        if name not in visited:
            visited.add(name)
            yield re.sub(r'""".*?"""|#.*', "", texts[name], flags=re.DOTALL)
            wanted += [other for other in {*re.findall(r"\b[A-Z]\w+", texts[name])} & {*texts} if other not in visited]


@cache
def _classes(path):
    """Return the text of each class of a file."""
    text = Path(path).read_text(encoding="utf-8")
    lines = text.splitlines()
    nodes = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
    return {node.name: "\n".join(lines[node.lineno - 1 : node.end_lineno]) for node in nodes}
