// The channels that a layer turns, the name of what turns them, and what multiplies logits.
// posenc.config.rotation_objects and posenc.config.scales in another language.

import { filled, isTruthy } from "./rules.js"

/** @import { Config } from "./model-types.js" */
/** @import { Fields } from "./rules.js" */

/** The width of a query, and the channels of it that a rotation gets.
 * @type {(config: Config, index: number, layerType: string) => { width: number, part: [number, number] }} */
export const headChannels = (config, index, layerType) => {
  const sizes = layerSizes(config, index, layerType)
  const { slice } = config.facts
  if (slice === "end") {
    const rotated = sizes.qk_rope_head_dim || config.number("qk_rope_head_dim")
    const width = rotated + (sizes.qk_nope_head_dim || config.number("qk_nope_head_dim"))
    return { width, part: [width - rotated, width] }
  }
  const stated = sizes.head_dim || config.get("head_dim")
  const width = stated || Math.floor(config.number("hidden_size") / config.number("num_attention_heads"))
  if (slice !== "trailing") return { width, part: [0, width] }
  const share = config.get("partial_rotary_factor") || (config.facts.share ?? 1)
  const rotated = config.fields.qk_rope_head_dim || Math.trunc(width * share)
  return { width, part: [width - rotated, width] }
}

/** What one layer has for itself, such as Gemma 4's wider heads of full attention.
 * @type {(config: Config, index: number, layerType: string) => Fields} */
const layerSizes = (config, index, layerType) => {
  const stated = config.fields.per_layer_config
  if (isTruthy(stated)) return Object.entries(stated).find(([key]) => Number(key) === index)?.[1] ?? {}
  /** @type {[string, [string, number]][]} */
  const rule = Object.entries(config.facts.layer_sizes?.[layerType] ?? {})
  return Object.fromEntries(rule.map(([name, [key, fallback]]) => [name, config.get(key) || fallback]))
}

/** The class that turns the channels `part`, and those that it gets at last.
 * @type {(config: Config, part: [number, number], pairs: number, sections: number[] | null) => { encoding: string,
 *   part: [number, number] }} */
export const rotation = (config, part, pairs, sections) => {
  const { layout, mrope: order } = config.facts
  const width = part[1] - part[0]
  const axes = sections && order
  if (axes) checkSections(config, sections, pairs)
  if (axes && layout !== "half") return { encoding: "Axial", part: [part[0], part[0] + 2 * pairs] }
  const encoding = axes ? "MRoPE" : "RoPE"
  if (width % 2)
    throw new Error(
      `${encoding.toLowerCase()}: dim and rotary_dim must be even, 2 <= r <= d, got ${width} and ${2 * pairs}`,
    )
  return { encoding, part }
}

/** @param {Config} config @param {number[]} sections @param {number} pairs */
const checkSections = ({ facts, rules }, sections, pairs) => {
  const isAlternating = facts.mrope === "alternating"
  if (isAlternating && (sections.length !== 3 || sections[0] !== sections[1]))
    throw new Error(filled(rules.sentences.UNEQUAL_SECTIONS, { sections }))
  if (facts.mrope !== "interleaved" && sections.reduce((sum, n) => sum + n, 0) !== pairs)
    throw new Error(filled(rules.sentences.SUM_OF_SECTIONS, { pairs, sections }))
}

/** How fast each pair turns with its row or its column, in the order of a picture's model.
 * @type {(config: Config, width: number, base: number) => number[]} */
export const gridFrequencies = ({ facts, rules }, width, base) => {
  if (!(base > 0 && base < Infinity)) throw new Error(filled(rules.sentences.BASE_OF_GRID, { base }))
  const pairs = Math.floor(width / 4)
  const half = Math.floor(width / 2)
  if (half !== 2 * pairs)
    throw new Error(`axial: theta of dim ${width} must have shape (2, ${half}), got (2, ${2 * pairs})`)
  return Array.from({ length: 2 * pairs }, (_, pair) => {
    const k = facts.grid === "alternating" ? Math.floor(pair / 2) : pair % pairs
    return base ** -((facts.grid === "pixtral" && pair >= pairs ? k + 0.5 : k) / pairs)
  })
}

/** What multiplies q.k before the softmax. @param {Config} config @param {Fields | null} rope @param {number} width */
export const softmaxScale = (config, rope, width) => {
  const rule = config.facts.scale ?? "head"
  if (typeof rule === "number") return rule
  if (rule === "yarn" && (rope?.rope_type ?? "default") !== "default" && rope?.mscale_all_dim && rope.factor)
    return (0.1 * rope.mscale_all_dim * Math.log(Math.max(rope.factor, 1)) + 1) ** 2 / Math.sqrt(width)
  if (rule === "attention_multiplier") return config.get(rule) || width ** -0.5
  if (rule === "query_pre_attn_scalar") return (config.get(rule) || width) ** -0.5
  return rule === "inverse" ? 1 / width : width ** -0.5
}

/** The scale of queries, of Llama 4 where it does not rotate, of Ministral everywhere.
 * @type {(config: Config, rope: Fields | null) => Fields | null} */
export const queryScale = (config, rope) => {
  const rule = config.facts.query_scale
  const [length, strength] = config.rules.QUERY_SCALES[rule] ?? []
  if (rule === "llama4" && !rope && config.get("attn_temperature_tuning"))
    return scaleOf(rule, config.get("floor_scale", length), config.get("attn_scale", strength))
  const { rope_parameters, rope_scaling } = config.fields
  const stated = [rope_parameters, rope_scaling, config.facts.default_rope].find(isTruthy) ?? {}
  if (rule === "ministral" && stated.llama_4_scaling_beta)
    return scaleOf(rule, Math.trunc(stated.original_max_position_embeddings), stated.llama_4_scaling_beta)
  if (rule === "power" && !rope) return scaleOf(rule, length, strength)
  if (rule !== "head") return null
  config.number("num_attention_heads")
  return scaleOf(rule, length, strength)
}

/** @param {string} kind of QueryScale @param {number} original_length @param {number} strength */
export const scaleOf = (kind, original_length, strength) => {
  if (original_length > 1) return { kind, original_length, strength }
  throw new Error(`query_scale: original_length must be above 1, got ${original_length}`)
}
