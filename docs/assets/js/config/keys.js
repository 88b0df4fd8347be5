// Keys that are read, and those that are refused: another program's, or misspelled. posenc.models.from_config in another language.

import { isDict } from "./model-types.js"
import { closeMatches } from "./close-matches.js"

/** @typedef {Record<string, any>} Fields */
/** @typedef {{ key: string, remedy: string }} Problem */

export const BASE_KEYS = ["rope_theta", "rotary_emb_base", "rotary_embedding_base", "rotary_base", "global_rope_theta"]
const ROPE_KEYS =
  "partial_rotary_factor rotary_pct rotary_percent rotary_emb_fraction rope_pct rope_percent rotary_dim rope_ratio rope_type type factor max_position_embeddings original_max_position_embeddings max_seq_len alpha beta_fast beta_slow truncate attention_factor mscale mscale_all_dim short_mscale long_mscale short_factor long_factor low_freq_factor high_freq_factor mrope_section mrope_interleaved llama_4_scaling_beta finetuned"
const TOP_KEYS =
  "layer_rope_theta partial_rotary_factors rope_parameters rope_scaling qk_rope_head_dim qk_nope_head_dim rope_interleave max_2d_position_embeddings t2u_max_position_embeddings"
const KNOWN_KEYS = [...BASE_KEYS, ...ROPE_KEYS.split(" "), ...TOP_KEYS.split(" ")]
const SPELLINGS = new Map(KNOWN_KEYS.map((key) => [key.replaceAll("_", ""), key]))
const CUTOFF = 0.93
const CUTOFF_INSIDE = 0.8 // of a rope dict, where a key means something or is wrong
/** @type {Record<string, string>} whose key it is */
const FOREIGN = {
  use_scaled_rope: "Meta's",
  use_rope_scaling: "Megatron's",
  rope_scaling_factor: "gpt-oss's own, Megatron's or Meta's",
  rope_ntk_alpha: "gpt-oss's own",
  initial_context_length: "gpt-oss's own",
  rope_factor: "DeepSeek's own",
  original_seq_len: "DeepSeek's own",
  rope_base: "litgpt's",
  rope_adjustments: "litgpt's",
  rotary_scaling_factor: "Nomic's own",
  attn_factor: "vLLM's",
  apply_yarn_scaling: "vLLM's",
  yarn: "Mistral's own",
  freq_base: "GGUF's",
  block_count: "GGUF's",
}
/** @type {Fields} with this value, else false, no effect */
const NEUTRAL = { apply_yarn_scaling: true, attn_factor: 1 }

/** Whose a key is, if another program's; in GGUF it stands behind "llama.rope.". @param {string} key */
export const owner = (key) => {
  const last = key.slice(key.lastIndexOf(".") + 1)
  return Object.hasOwn(FOREIGN, last) ? FOREIGN[last] : null
}

/** What is wrong with a rope dict. @param {Fields} rope @returns {Problem | null} */
export const problem = (rope) => foreign(rope) ?? misspelled({}, rope)

/** @param {Fields} rope @returns {Problem | null} */
const foreign = (rope) => {
  for (const [key, value] of Object.entries(rope)) {
    const neutral = NEUTRAL[key] ?? false
    if (owner(key) && ![null, neutral, Number(neutral)].includes(value))
      return { key: `${key}, ${owner(key)} word`, remedy: "posenc.plan reads other formats" }
  }
  return null
}

/** A key that is nearly a known one, or not known inside a rope dict. @param {Fields} fields @param {Fields} inside @returns {Problem | null} */
export const misspelled = (fields, inside) => {
  const unknown = Object.keys({ ...fields, ...inside }).filter((key) => !KNOWN_KEYS.includes(key))
  for (const key of unknown.sort()) {
    const cutoff = key in inside ? CUTOFF_INSIDE : CUTOFF
    const [near] = closeMatches(key.toLowerCase().replace(/[_-]/g, ""), [...SPELLINGS.keys()], 1, cutoff)
    if (near) return { key, remedy: `did you mean ${SPELLINGS.get(near)}?` }
    const value = inside[key] ?? null
    if (value !== null && !isDict(value)) return { key, remedy: "what it would do is not known" }
  }
  return null
}
