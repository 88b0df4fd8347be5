// A configuration of transformers, told from those of other programs; vLLM's words in it as transformers' own.
// posenc.config.formats.detection in another language, which reads the other programs' as well.

import { owner } from "./keys.js"
import { isDict } from "./model-types.js"

/** @typedef {Record<string, any>} Words */
/** @typedef {(said: Words) => boolean} Test */

const VLLM = ["attn_factor", "apply_yarn_scaling", "extrapolation_factor"]

/** @param {string[]} names @returns {Test} */
const all =
  (...names) =>
  (said) =>
    names.every((name) => name in said)

/** @param {string[]} names @returns {Test} */
const any =
  (...names) =>
  (said) =>
    names.some((name) => name in said)

/** @type {Record<string, Test[]>} in this order: those whose keys are of no other first */
const FORMATS = {
  GGUF: [(said) => Object.keys(said).some((name) => name.endsWith(".block_count"))],
  "gpt-oss": [all("initial_context_length", "rope_ntk_alpha", "rope_scaling_factor")],
  DeepSeek: [all("dim", "n_heads", "inter_dim", "qk_rope_head_dim")],
  litgpt: [all("n_embd", "n_layer"), any("rope_base", "rotary_percentage", "rope_adjustments", "n_query_groups")],
  Megatron: [
    all("num_layers"),
    any("rotary_base", "use_rope_scaling", "rotary_interleaved", "rotary_seq_len_interpolation_factor"),
  ],
  Meta: [
    all("dim", "n_layers", "n_heads"),
    any("multiple_of", "ffn_dim_multiplier", "use_scaled_rope", "nope_layer_interval"),
  ],
  Mistral: [all("dim", "n_layers", "n_heads", "hidden_dim"), (said) => !("model_type" in said)], // DistilBERT has one
}

/** The configuration of transformers; another program's is refused. @param {Words} config @returns {Words} */
export const recognized = (config) => {
  for (const [name, tests] of Object.entries(FORMATS))
    if (tests.every((test) => test(config)))
      throw new Error(`plan: config must be in the words of transformers, got those of ${name}`)
  const strange = Object.keys(config).filter((name) => !name.includes(".") && owner(name) && config[name])
  if (strange.length && !("model_type" in config))
    throw new Error(
      `plan: config must be of one of ${Object.keys(FORMATS).join(", ")}, got keys such as ` +
        `${strange.join(", ")} without those that tell which; add model_type`,
    )
  return withoutVllm(config)
}

/** A configuration with vLLM's words of YaRN as the attention_factor that they make. @param {Words} config */
const withoutVllm = (config) => {
  const said = { ...config }
  for (const name of ["rope_scaling", "rope_parameters"]) {
    if (!isDict(said[name])) continue
    const rope = { ...said[name] }
    if ((rope.rope_type ?? rope.type) === "deepseek_yarn") rope.rope_type = "yarn"
    const words = Object.fromEntries(VLLM.filter((word) => word in rope).map((word) => [word, rope[word]]))
    for (const word in words) delete rope[word]
    Object.assign(rope, attentionFactor(words, rope))
    if (Object.keys(rope).length) said[name] = rope
  }
  return said
}

/** @param {Words} words @param {Words} rope @returns {Words} */
const attentionFactor = (words, rope) => {
  const { attn_factor: times = 1, apply_yarn_scaling: grows = true, extrapolation_factor: mixed = 1 } = words
  const names = Object.keys(words)
  if (mixed !== 1)
    throw new Error(`plan: extrapolation_factor must be 1, got ${mixed}; transformers has no word for another`)
  if (names.length && "attention_factor" in rope)
    throw new Error(
      `plan: attention_factor must be alone, got ${names.join(", ")} beside it; vLLM reads one and ` +
        "transformers the other",
    )
  if (!("attn_factor" in words || "apply_yarn_scaling" in words)) return {}
  return { attention_factor: times * (grows ? 0.1 * Math.log(Math.max(rope.factor || 1, 1)) + 1 : 1) }
}
