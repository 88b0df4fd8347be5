"""Messages of a plan: why a layer has its encoding, warnings, and reasons of a refusal.

Blanks are filled by `str.format`. They are here, apart from the code that uses them, because the
reader in JavaScript has the same; posenc.config.rules hands them to it.
"""

# Where the base of a rotation was stated

FROM_ROPE_DICT = "rope_parameters"
FROM_CONFIG = "the config"
FROM_CODE = "the code"

# Why a layer has its encoding, or none

ROTATES = "{rope_type} rotation, its base from {source}"
ROTATES_ON_GRID = "rotation by rows and columns, its base from {source}"
SLOPES = "a slope a head"
SHARED_TABLE = "one table of biases for all layers"
OWN_TABLE = "a table of biases of its own"
LEARNED_ROWS = "learned rows are added to the embeddings"
CURVES = "each query mixes {rank} curves over {extent:,} tokens"
NOTHING = "no position but by the causal mask"
NO_SOFTMAX = "no softmax attention here"
CROSS_ATTENTION = "cross-attention, whose keys are of a picture"
OTHER_VALUE = "{field} is not {value}"
UNROTATED_TYPE = "{layer_type} of {model_type} does not rotate"
UNMARKED = "0 in {by_list} means no RoPE"
BASE_OF_ZERO = "rope_theta is 0: it does not rotate"
NO_ROPE_DICT = "{layer_type} has no rotation in rope_parameters"

# What to beware of

MARKS = "{by_list}: 1 means that a layer rotates, 0 that it does not; {rotating} of {layers} do"
NO_LAYER_ROTATES = "no layer rotates; a rope_theta in this config has no effect"
BASE_FROM_CODE = "rope_theta is not in the config: the code takes {bases}"
TWO_BASES = (
    "rope_theta is {outside:,.10g} at the top, {inside:,.10g} in rope_parameters, which counts"
)
TWO_DICTS = "rope_scaling and rope_parameters differ; rope_scaling counts"
OTHER_WIDTH = (
    "heads are {stated} wide by head_dim, not hidden_size / num_attention_heads = {divided}"
)
OTHER_WIDTH_OF_TYPE = "heads of {layer_type} are {width} wide, not head_dim = {stated}"
PART_ROTATES = "{rotated} of {width} channels rotate in {layer_type}"
UNREAD_KEY = "{name}: {key} is not read; {remedy}"
NO_TRAINED_LENGTH = (
    "{name}: {rope_type} without original_max_position_embeddings; max_position_embeddings, "
    "{longest:,}, is taken for it"
)
OTHER_LENGTH = (
    "{name}: factor {factor:g} times {trained:,} is {extended:,.0f}, max_position_embeddings is "
    "{longest:,}"
)
SLOW_PAIRS = (
    "{slow} of {pairs} pairs complete no rotation within the {limit} of {reach:,} in {layer_type}"
)

# What is refused

OTHER_FORMAT = (
    "plan: config must be of one of {formats}, got keys such as {keys} without those that show "
    "which; add model_type"
)
EXTRAPOLATION = (
    "plan: extrapolation_factor must be 1, got {factor}; transformers has no key for another"
)
TWO_FACTORS = (
    "plan: attention_factor must be alone, got {keys} beside it; vLLM reads one and transformers "
    "the other"
)
NO_NUMBER = (
    "plan: {name} must be a positive integer in a config of {model_type}, got {value!r}; add it"
)
TOO_MANY_LAYERS = (
    "plan: num_hidden_layers must be at most {most:,} in a config of {model_type}, got {count}; "
    "correct it"
)
UNKNOWN_MODEL_TYPE = (
    "plan: model_type must be one that transformers knows, got {model_type!r}; if its attention is "
    "that of another, say so in model_type; near are {near}"
)
UNREAD_POSITIONS = (
    "plan: model_type must be one whose positions posenc reads, got {model_type}; {why}"
)
NOT_OF_TEXT = "it is no model of text"
UNREAD_PARTS = "plan: config must be of parts that can be read, got {model_type}; {why}"
NO_PARTS = "it has none of {parts}"
NO_LAYER_TYPES = (
    "plan: layer_types must be in a config of {model_type}, got None; its code mixes layers in a "
    "way that posenc does not know"
)
WRONG_COUNT = (
    "plan: {name} must have {count} values, one for each layer, got {stated}; correct it or "
    "num_hidden_layers"
)
MISSPELLED = "plan: config must be {condition}, got {value}; {remedy}"
MISSPELLED_INSIDE = "plan: {name} must be of keys that are read, got {key}; {remedy}"
NO_BASE = (
    "plan: rope_theta must be in the config of {model_type}, got None; add it: its code has no "
    "default"
)
MISSING_KEY = "plan: {key} must be stated for {rope_type}, got None; add it"
UNEQUAL_SECTIONS = (
    "plan: mrope_section must be [n, n, time], rows and columns alike, got {sections}; correct it"
)
SUM_OF_SECTIONS = "plan: mrope_section must be {pairs} pairs in all, got {sections}; correct it"
BASE_OF_GRID = "plan: rope_theta must be positive and finite, got {base:g}; correct it"
