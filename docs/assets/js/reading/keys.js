// Names in a rope dict that nobody reads: another program's, or misspelled. posenc.rotate.config_keys in another language.

import { isDict } from "./kinds.js"

export const BASES = ["rope_theta", "rotary_emb_base", "rotary_embedding_base", "rotary_base", "global_rope_theta"]
const READ =
  "partial_rotary_factor rotary_pct rotary_percent rotary_emb_fraction rope_pct rope_percent rotary_dim rope_ratio rope_type type factor max_position_embeddings original_max_position_embeddings max_seq_len alpha beta_fast beta_slow truncate attention_factor mscale mscale_all_dim short_mscale long_mscale short_factor long_factor low_freq_factor high_freq_factor mrope_section mrope_interleaved llama_4_scaling_beta finetuned"
const BESIDE =
  "layer_rope_theta partial_rotary_factors rope_parameters rope_scaling qk_rope_head_dim qk_nope_head_dim rope_interleave max_2d_position_embeddings t2u_max_position_embeddings"
export const WORDS = [...BASES, ...READ.split(" ")]
export const AROUND = BESIDE.split(" ")
const KNOWN = new Map([...WORDS, ...AROUND].map((name) => [name.replaceAll("_", ""), name]))
/** @type {Record<string, string>} whose word it is */
export const FOREIGN = {
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
/** @type {Record<string, any>} */
const NOTHING = { apply_yarn_scaling: true, attn_factor: 1 }
const NEAR = 0.93

/** What is wrong with a rope dict: the word and the remedy. @param {Record<string, any>} rope @returns {{ word: string, remedy: string } | null} */
export const problem = (rope) => {
  for (const [name, value] of Object.entries(rope)) {
    const last = name.slice(name.lastIndexOf(".") + 1)
    if (last in FOREIGN && value !== null && value !== (NOTHING[last] ?? false))
      return { word: `${name}, ${FOREIGN[last]} word`, remedy: "posenc.plan reads other formats" }
  }
  const unknown = Object.keys(rope).filter((name) => !WORDS.includes(name) && !AROUND.includes(name))
  for (const name of unknown.sort()) {
    const near = nearest(name.toLowerCase().replace(/[_-]/g, ""))
    if (near) return { word: name, remedy: `did you mean ${near}?` }
    if (rope[name] !== null && !isDict(rope[name])) return { word: name, remedy: "what it would do is not known" }
  }
  return null
}

/** @param {string} word */
const nearest = (word) => {
  let [best, found] = [NEAR, ""]
  for (const plain of [...KNOWN.keys()].sort()) {
    const alike = (2 * common(plain, word)) / (plain.length + word.length)
    if (alike >= best) [best, found] = [alike, plain]
  }
  return KNOWN.get(found)
}

/** How many letters two words share in order: the longest piece first, then what is left and right of it. @param {string} a @param {string} b @returns {number} */
const common = (a, b) => {
  let [size, atA, atB] = [0, 0, 0]
  for (let i = 0; i < a.length; i++)
    for (let j = 0; j < b.length; j++) {
      let n = 0
      while (i + n < a.length && j + n < b.length && a[i + n] === b[j + n]) n++
      if (n > size) [size, atA, atB] = [n, i, j]
    }
  if (!size) return 0
  return size + common(a.slice(0, atA), b.slice(0, atB)) + common(a.slice(atA + size), b.slice(atB + size))
}
