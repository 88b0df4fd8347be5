// Names that nobody reads: another program's, or misspelled. posenc.models.from_config in another language.

import { isDict } from "./model-types.js"
import { nearest } from "./close-matches.js"

/** @typedef {Record<string, any>} Words */
/** @typedef {{ word: string, remedy: string }} Problem */

export const BASES = ["rope_theta", "rotary_emb_base", "rotary_embedding_base", "rotary_base", "global_rope_theta"]
const READ =
  "partial_rotary_factor rotary_pct rotary_percent rotary_emb_fraction rope_pct rope_percent rotary_dim rope_ratio rope_type type factor max_position_embeddings original_max_position_embeddings max_seq_len alpha beta_fast beta_slow truncate attention_factor mscale mscale_all_dim short_mscale long_mscale short_factor long_factor low_freq_factor high_freq_factor mrope_section mrope_interleaved llama_4_scaling_beta finetuned"
const AROUND =
  "layer_rope_theta partial_rotary_factors rope_parameters rope_scaling qk_rope_head_dim qk_nope_head_dim rope_interleave max_2d_position_embeddings t2u_max_position_embeddings"
const WORDS = [...BASES, ...READ.split(" "), ...AROUND.split(" ")]
const KNOWN = new Map(WORDS.map((name) => [name.replaceAll("_", ""), name]))
const NEAR = 0.93
const NEAR_INSIDE = 0.8 // of a rope dict, where a name means something or is wrong
/** @type {Record<string, string>} whose word it is */
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
/** @type {Words} what changes nothing, if not false */
const NOTHING = { apply_yarn_scaling: true, attn_factor: 1 }

/** Whose a name is, if another program's; in GGUF it stands behind "llama.rope.". @param {string} name */
export const owner = (name) => {
  const last = name.slice(name.lastIndexOf(".") + 1)
  return Object.hasOwn(FOREIGN, last) ? FOREIGN[last] : null
}

/** What is wrong with a rope dict. @param {Words} rope @returns {Problem | null} */
export const problem = (rope) => foreign(rope) ?? misspelled({}, rope)

/** @param {Words} rope @returns {Problem | null} */
const foreign = (rope) => {
  for (const [name, value] of Object.entries(rope)) {
    const nothing = NOTHING[name] ?? false
    if (owner(name) && ![null, nothing, Number(nothing)].includes(value))
      return { word: `${name}, ${owner(name)} word`, remedy: "posenc.plan reads other formats" }
  }
  return null
}

/** A name that is nearly a known one, or not known inside a rope dict. @param {Words} said @param {Words} inside @returns {Problem | null} */
export const misspelled = (said, inside) => {
  const unknown = Object.keys({ ...said, ...inside }).filter((name) => !WORDS.includes(name))
  for (const name of unknown.sort()) {
    const [near] = nearest(
      name.toLowerCase().replace(/[_-]/g, ""),
      [...KNOWN.keys()],
      1,
      name in inside ? NEAR_INSIDE : NEAR,
    )
    if (near) return { word: name, remedy: `did you mean ${KNOWN.get(near)}?` }
    const value = inside[name] ?? null
    if (value !== null && !isDict(value)) return { word: name, remedy: "what it would do is not known" }
  }
  return null
}
