// How fast each pair of a layer turns. posenc.config.rotation and posenc.models.from_config in another language.

import { dynamicNtk, linear, llama3, longrope, ntk, proportional, yarn } from "../math/scaling.js"
import { filled, isDict, isTruthy, repr } from "./rules.js"
import { checkedPerLayer } from "./layer-types.js"

/** @import { Stretched } from "../math/scaling.js" */
/** @import { Config } from "./model-types.js" */
/** @import { Fields } from "./rules.js" */
/** @typedef {{ theta: number[], attentionFactor: number }} Frequencies */

export const LONGEST = "max_position_embeddings"
export const TRAINED = "original_max_position_embeddings"

/** @type {Record<string, (dim: number, base: number, fields: Fields) => Stretched>} by their names in Python */
const FORMULAS = {
  rope_frequencies: (dim, base) => linear(dim, 1, base),
  linear: (dim, base, { factor }) => linear(dim, factor, base),
  ntk: (dim, base, { alpha }) => ntk(dim, alpha, base),
  dynamic_ntk: (dim, base, { factor, length, [LONGEST]: longest }) => dynamicNtk(dim, factor, length, longest, base),
  yarn: (dim, base, fields) => {
    const { factor, mscale, mscale_all_dim, beta_fast: fast = 32, beta_slow: slow = 1, truncate = true } = fields
    check(fast >= slow, `beta_fast must be at least ${slow}, got ${fast}`)
    const growth = 0.1 * Math.log(Math.max(factor, 1))
    const attention = mscale && mscale_all_dim ? (mscale * growth + 1) / (mscale_all_dim * growth + 1) : undefined
    return yarn(dim, factor, fields[TRAINED], base, { fast, slow, truncate, attention })
  },
  longrope: (dim, base, fields) => {
    const divisors = fields.length > fields[TRAINED] ? fields.long_factor : fields.short_factor
    check(
      divisors.length === dim / 2,
      `short_factor and long_factor must have shape (${dim / 2},), got (${divisors.length},)`,
    )
    return longrope(dim, divisors, fields.factor, fields[TRAINED], base)
  },
  llama3: (dim, base, { factor, low_freq_factor: low, high_freq_factor: high, ...fields }) => {
    check(high >= low, `high_freq_factor must be at least ${low}, got ${high}`)
    return llama3(dim, factor, fields[TRAINED], base, { low, high })
  },
  proportional: (dim, base, { partial_rotary_factor: fraction, factor = 1 }) => {
    check(fraction > 0 && fraction <= 1, `fraction must be above 0 and at most 1, got ${fraction}`)
    const { theta, attention } = proportional(dim, fraction, base)
    return { theta: theta.map((t) => t / factor), attention }
  },
}

/** @param {boolean} condition @param {string} message */
const check = (condition, message) => {
  if (!condition) throw new Error(`frequencies: ${message}`)
}

/** The rope dict of one layer, null if the config says that it does not rotate.
 * @type {(config: Config, index: number, layerType: string) => Fields | null} */
export const ropeDict = (config, index, layerType) => {
  const { bases, unscaled_types, default_rope } = config.facts
  const { ALIASES, PER_LAYER } = config.rules
  const stated = [config.fields.rope_scaling, config.fields.rope_parameters, bases ? null : default_rope]
  const label = config.label(layerType)
  let rope = stated.find(isTruthy) ?? {}
  if (Object.values(rope).some(isDict)) rope = rope[label]
  else if ((bases && !bases[label]?.scaled) || unscaled_types?.includes(layerType)) rope = {}
  if (!rope) return null
  /** @type {Fields} */
  const fields = {}
  for (const [key, value] of Object.entries(rope)) if (value !== null) fields[ALIASES[key] ?? key] = value
  for (const [listKey, key] of Object.entries(PER_LAYER)) {
    const values = config.fields[listKey]
    if (Array.isArray(values) && values.length) fields[key] = checkedPerLayer(config, listKey, values)[index]
  }
  return fields.rope_theta === 0 ? null : fields
}

/** The base of a rotation and where it stands.
 * @type {(config: Config, rope: Fields, layerType: string) => [number, string]} */
export const baseOf = (config, rope, layerType) => {
  const { bases, defaults, base, inside } = config.facts
  const { BASE_KEYS, sentences } = config.rules
  const rule = bases?.[config.label(layerType)]
  const topKeys = rule ? [rule.key] : BASE_KEYS
  for (const key of BASE_KEYS) if (typeof rope[key] === "number") return [rope[key], sentences.FROM_ROPE_DICT]
  for (const key of topKeys)
    if (typeof config.fields[key] === "number") return [config.fields[key], sentences.FROM_CONFIG]
  const inGroup = inside?.rope_theta && config.get("rope_theta") // such as DBRX's, in attn_config
  if (!rule && typeof inGroup === "number") return [inGroup, sentences.FROM_CONFIG]
  const fromCode = rule ? rule.base : defaults?.rope_theta || base
  if (fromCode) return [fromCode, sentences.FROM_CODE]
  throw new Error(filled(sentences.NO_BASE, { model_type: config.modelType }))
}

/** The share of a head that turns. @param {Config} config @param {Fields} rope @param {number} width */
const shareOf = (config, rope, width) => {
  for (const fields of [rope, config.fields])
    for (const key of config.rules.SHARE_KEYS) if (typeof fields[key] === "number") return fields[key]
  const rotaryDim = config.facts.unread_keys?.includes("rotary_dim") ? null : config.get("rotary_dim")
  return rotaryDim ? rotaryDim / width : (config.facts.share ?? 1)
}

/** @type {(config: Config, rope: Fields, layerType: string, width: number, length: number) => Frequencies &
 *   { base: number, source: string }} */
export const frequencies = (config, rope, layerType, width, length) => {
  const stated = rope.rope_type ?? "default"
  const ropeType = stated === "axial" ? "default" : stated
  const [base, source] = baseOf(config, rope, layerType)
  /** @type {Fields} */
  const fields = { ...config.facts.rope_values?.[ropeType], ...rope, rope_theta: base, rope_type: ropeType, length }
  const share = "slice" in config.facts ? 1 : shareOf(config, rope, width)
  delete fields.partial_rotary_factor
  if (share !== 1 || ropeType === "proportional") fields.partial_rotary_factor = share
  const longest = config.get(LONGEST) || fields[LONGEST]
  const trained = config.get(TRAINED) || fields[TRAINED] || longest
  if (longest) fields[LONGEST] = longest
  if (trained) fields[TRAINED] = trained
  return { ...fromConfig(fields, width, config.rules), base, source }
}

/** @param {Fields} fields @param {number} dim @param {import("./rules.js").Rules} rules @returns {Frequencies} */
const fromConfig = (fields, dim, { ROPE_TYPES, sentences }) => {
  const ropeType = fields.rope_type
  if (!Object.hasOwn(ROPE_TYPES, ropeType)) {
    const known = Object.keys(ROPE_TYPES).join(", ")
    throw new Error(`from_config: rope_type must be one of ${known}, got ${repr(ropeType)}`)
  }
  const [width, base] = widthAndBase(fields, dim, ropeType)
  const hasFactor = ["yarn", "longrope"].includes(ROPE_TYPES[ropeType].formula)
  if (hasFactor && fields[LONGEST]) fields.factor ??= fields[LONGEST] / fields[TRAINED]
  if (ropeType === "proportional") fields.partial_rotary_factor ??= 1
  // Hunyuan's alpha is the same at every length
  const { formula, needed } =
    ropeType === "dynamic" && fields.alpha ? { formula: "ntk", needed: [] } : ROPE_TYPES[ropeType]
  for (const key of needed)
    if (fields[key] === undefined) throw new Error(filled(sentences.MISSING_KEY, { key, rope_type: ropeType }))
  check(width % 2 === 0 && width >= 2, `dim must be even and at least 2, got ${width}`)
  check(base > 1 && base < Infinity, `base must be finite and above 1, got ${base % 1 ? base : base.toFixed(1)}`)
  const { theta, attention } = FORMULAS[formula](width, base, fields)
  const mscale = fields.length > fields[TRAINED] ? "long_mscale" : "short_mscale"
  const attentionFactor = hasFactor ? (fields.attention_factor ?? fields[mscale] ?? attention) : attention
  return { theta: Array.from(theta), attentionFactor }
}

/** @param {Fields} fields @param {number} dim @param {string} ropeType @returns {[number, number]} */
const widthAndBase = (fields, dim, ropeType) => {
  const base = fields.rope_theta * (fields.rope_ratio ?? 1)
  if (ropeType === "proportional") return [dim, base]
  const r = Math.trunc(dim * (fields.partial_rotary_factor ?? 1))
  if (r > dim) throw new Error(`from_config: dim must be at least ${r}, which rotate, got ${dim}`)
  if (r % 2 && r < dim && ropeType !== "dynamic" && ropeType !== "yarn") return [r + 1, base ** (1 + 1 / r)]
  return [r, base]
}
