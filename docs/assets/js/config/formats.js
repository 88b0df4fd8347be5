// A configuration of transformers, told from those of other programs; vLLM's keys in it as transformers' own.
// posenc.config.formats.detection in another language, which reads the other programs' as well.

import { owner } from "./keys.js"
import { isDict } from "./model-types.js"

/** @typedef {Record<string, any>} Fields */
/** @typedef {(config: Fields) => boolean} Test */

const VLLM_KEYS = ["attn_factor", "apply_yarn_scaling", "extrapolation_factor"]

/** @param {string[]} keys @returns {Test} */
const hasAll =
  (...keys) =>
  (config) =>
    keys.every((key) => key in config)

/** @param {string[]} keys @returns {Test} */
const hasAny =
  (...keys) =>
  (config) =>
    keys.some((key) => key in config)

/** @type {Record<string, Test[]>} in this order: those whose keys are of no other first */
const FORMATS = {
  GGUF: [(config) => Object.keys(config).some((key) => key.endsWith(".block_count"))],
  "gpt-oss": [hasAll("initial_context_length", "rope_ntk_alpha", "rope_scaling_factor")],
  DeepSeek: [hasAll("dim", "n_heads", "inter_dim", "qk_rope_head_dim")],
  litgpt: [hasAll("n_embd", "n_layer"), hasAny("rope_base", "rotary_percentage", "rope_adjustments", "n_query_groups")],
  Megatron: [
    hasAll("num_layers"),
    hasAny("rotary_base", "use_rope_scaling", "rotary_interleaved", "rotary_seq_len_interpolation_factor"),
  ],
  Meta: [
    hasAll("dim", "n_layers", "n_heads"),
    hasAny("multiple_of", "ffn_dim_multiplier", "use_scaled_rope", "nope_layer_interval"),
  ],
  Mistral: [hasAll("dim", "n_layers", "n_heads", "hidden_dim"), (config) => !("model_type" in config)], // DistilBERT has one
}

/** The configuration of transformers; another program's is refused. @param {Fields} config @returns {Fields} */
export const recognized = (config) => {
  for (const [name, tests] of Object.entries(FORMATS))
    if (tests.every((test) => test(config)))
      throw new Error(`plan: config must be in the words of transformers, got those of ${name}`)
  const foreign = Object.keys(config).filter((key) => !key.includes(".") && owner(key) && config[key])
  if (foreign.length && !("model_type" in config))
    throw new Error(
      `plan: config must be of one of ${Object.keys(FORMATS).join(", ")}, got keys such as ` +
        `${foreign.join(", ")} without those that tell which; add model_type`,
    )
  return withoutVllm(config)
}

/** A configuration with vLLM's keys of YaRN as the attention_factor that they make. @param {Fields} config */
const withoutVllm = (config) => {
  const fields = { ...config }
  for (const name of ["rope_scaling", "rope_parameters"]) {
    if (!isDict(fields[name])) continue
    const rope = { ...fields[name] }
    if ((rope.rope_type ?? rope.type) === "deepseek_yarn") rope.rope_type = "yarn"
    const stated = Object.fromEntries(VLLM_KEYS.filter((key) => key in rope).map((key) => [key, rope[key]]))
    for (const key in stated) delete rope[key]
    Object.assign(rope, attentionFactor(stated, rope))
    if (Object.keys(rope).length) fields[name] = rope
  }
  return fields
}

/** @param {Fields} stated vLLM's keys @param {Fields} rope @returns {Fields} */
const attentionFactor = (stated, rope) => {
  const {
    attn_factor: multiplier = 1,
    apply_yarn_scaling: grows = true,
    extrapolation_factor: extrapolation = 1,
  } = stated
  const keys = Object.keys(stated)
  if (extrapolation !== 1)
    throw new Error(`plan: extrapolation_factor must be 1, got ${extrapolation}; transformers has no word for another`)
  if (keys.length && "attention_factor" in rope)
    throw new Error(
      `plan: attention_factor must be alone, got ${keys.join(", ")} beside it; vLLM reads one and ` +
        "transformers the other",
    )
  if (!("attn_factor" in stated || "apply_yarn_scaling" in stated)) return {}
  return { attention_factor: multiplier * (grows ? 0.1 * Math.log(Math.max(rope.factor || 1, 1)) + 1 : 1) }
}
