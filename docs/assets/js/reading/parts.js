// The channels that a layer turns, the name of what turns them, and what multiplies logits.
// posenc.reading.turns and posenc.reading.scale in another language.

/** @typedef {import("./kinds.js").Config} Config */
/** @typedef {Record<string, any>} Words */

/** @param {Config} config @param {number} index @param {string} word @returns {{ width: number, part: [number, number] }} */
export const head = (config, index, word) => {
  const own = ofLayer(config, index, word)
  const where = config.kind.slice
  if (where === "end") {
    const turning = own.qk_rope_head_dim || config.number("qk_rope_head_dim")
    const width = turning + (own.qk_nope_head_dim || config.number("qk_nope_head_dim"))
    return { width, part: [width - turning, width] }
  }
  let width = own.head_dim || config.get("head_dim")
  if (!width) width = Math.floor(config.number("hidden_size") / config.number("num_attention_heads"))
  width *= config.kind.wider ?? 1
  if (where !== "trailing") return { width, part: [0, width] }
  const share = Math.trunc(width * config.get("partial_rotary_factor", 1))
  const turning = config.said.qk_rope_head_dim ?? share
  return { width, part: [width - turning, width] }
}

/** @param {Config} config @param {number} index @param {string} word @returns {Words} */
const ofLayer = (config, index, word) => {
  const stated = config.said.per_layer_config ?? {}
  for (const [key, found] of Object.entries(stated)) if (Number(key) === index) return found
  const rule = Object.keys(stated).length ? {} : (config.kind.own?.[word] ?? {})
  return Object.fromEntries(
    Object.entries(rule).map(([name, [key, otherwise]]) => [name, config.get(key) || otherwise]),
  )
}

/** The class that turns the channels `part`, and those that it is given at last. @param {Config} config @param {[number, number]} part @param {number} pairs @param {number[] | null} sections @returns {{ encoding: string, part: [number, number] }} */
export const rotation = (config, part, pairs, sections) => {
  const order = config.kind.mrope
  if (!sections || !order) return { encoding: "RoPE", part }
  if (config.kind.layout === "half" && (order === "chunked" || order === "interleaved"))
    return { encoding: "MRoPE", part }
  return { encoding: "Axial", part: [part[0], part[0] + 2 * pairs] }
}

/** @param {Config} config @param {Words | null} rope @param {number} width @returns {number} */
export const softmaxScale = (config, rope, width) => {
  const rule = config.kind.scale ?? "head"
  if (typeof rule === "number") return rule
  if (rule === "yarn" && (rope?.rope_type ?? "default") !== "default" && rope?.mscale_all_dim && rope.factor)
    return (0.1 * rope.mscale_all_dim * Math.log(Math.max(rope.factor, 1)) + 1) ** 2 / Math.sqrt(width)
  if (rule === "attention_multiplier") return config.get(rule) || width ** -0.5
  if (rule === "query_pre_attn_scalar") return (config.get(rule) || width) ** -0.5
  return rule === "inverse" ? 1 / width : width ** -0.5
}

/** @param {Config} config @param {Words | null} rope @returns {Words | null} */
export const queryScale = (config, rope) => {
  const rule = config.kind.query_scale
  if (rule === "llama4" && !rope && config.get("attn_temperature_tuning"))
    return { kind: rule, original_length: config.get("floor_scale"), strength: config.get("attn_scale") }
  const stated = config.said.rope_parameters || config.said.rope_scaling || config.kind.rope || {}
  if (rule === "ministral" && stated.llama_4_scaling_beta) {
    const original_length = stated.original_max_position_embeddings
    return { kind: rule, original_length, strength: stated.llama_4_scaling_beta }
  }
  return rule === "head" && rope ? { kind: rule } : null
}
