// How fast each pair of a layer turns. posenc.config.rotation and posenc.models.from_config in another language.

import { dynamicNtk, linear, llama3, longrope, ntk, proportional, yarn } from "../math/scaling.js"
import { BASE_KEYS } from "./keys.js"
import { isDict, isTruthy, repr } from "./model-types.js"
import { checkedPerLayer } from "./layer-types.js"

/** @typedef {import("./model-types.js").Config} Config */
/** @typedef {Record<string, any>} Fields */
/** @typedef {{ theta: number[], attentionFactor: number }} Frequencies */

export const LONGEST = "max_position_embeddings"
export const TRAINED = "original_max_position_embeddings"
export const FROM_CODE = "the code"
const SHARE_KEYS = ["rotary_pct", "rotary_percent", "rotary_emb_fraction", "rope_pct", "rope_percent"]
SHARE_KEYS.unshift("partial_rotary_factor")
/** @type {Record<string, string>} */
const ALIASES = { type: "rope_type", max_seq_len: LONGEST }
for (const key of BASE_KEYS.slice(1)) ALIASES[key] = "rope_theta"
for (const key of SHARE_KEYS.slice(1)) ALIASES[key] = "partial_rotary_factor"
const PER_LAYER = [
  ["rope_theta", "rope_theta"],
  ["layer_rope_theta", "rope_theta"],
  ["partial_rotary_factors", "partial_rotary_factor"],
] // a list with a value for each layer, and the key that it gives a layer's rope dict

/** @typedef {{ needed: string[], make: (dim: number, base: number, fields: Fields) => import("../math/scaling.js").Stretched }} Formula */
/** @type {Formula} */
const DEFAULT = { needed: [], make: (dim, base) => linear(dim, 1, base) }
/** @type {Formula} Hunyuan's, the same at every length */
const ALPHA = { needed: ["alpha"], make: (dim, base, { alpha }) => ntk(dim, alpha, base) }
/** @type {Formula} */
const LONGROPE = {
  needed: ["short_factor", "long_factor", TRAINED, "factor"],
  make: (dim, base, fields) => {
    const divisors = fields.length > fields[TRAINED] ? fields.long_factor : fields.short_factor
    check(
      divisors.length === dim / 2,
      `short_factor and long_factor must have shape (${dim / 2},), got (${divisors.length},)`,
    )
    return longrope(dim, divisors, fields.factor, fields[TRAINED], base)
  },
}
/** @type {Record<string, Formula>} */
const ROPE_TYPES = {
  default: DEFAULT,
  mrope: DEFAULT,
  linear: { needed: ["factor"], make: (dim, base, { factor }) => linear(dim, factor, base) },
  dynamic: {
    needed: ["factor", LONGEST],
    make: (dim, base, fields) => dynamicNtk(dim, fields.factor, fields.length, fields[LONGEST], base),
  },
  yarn: {
    needed: ["factor", TRAINED],
    make: (dim, base, fields) => {
      const { factor, mscale, mscale_all_dim, beta_fast: fast = 32, beta_slow: slow = 1, truncate = true } = fields
      check(fast >= slow, `beta_fast must be at least ${slow}, got ${fast}`)
      const growth = 0.1 * Math.log(Math.max(factor, 1))
      const attention = mscale && mscale_all_dim ? (mscale * growth + 1) / (mscale_all_dim * growth + 1) : undefined
      return yarn(dim, factor, fields[TRAINED], base, { fast, slow, truncate, attention })
    },
  },
  longrope: LONGROPE,
  su: LONGROPE,
  llama3: {
    needed: ["factor", "low_freq_factor", "high_freq_factor", TRAINED],
    make: (dim, base, { factor, low_freq_factor: low, high_freq_factor: high, ...fields }) => {
      check(high >= low, `high_freq_factor must be at least ${low}, got ${high}`)
      return llama3(dim, factor, fields[TRAINED], base, { low, high })
    },
  },
  proportional: {
    needed: [],
    make: (dim, base, { partial_rotary_factor: fraction = 1, factor = 1 }) => {
      check(fraction > 0 && fraction <= 1, `fraction must be above 0 and at most 1, got ${fraction}`)
      const { theta, attention } = proportional(dim, fraction, base)
      return { theta: theta.map((t) => t / factor), attention }
    },
  },
}

/** @param {boolean} condition @param {string} message */
const check = (condition, message) => {
  if (!condition) throw new Error(`frequencies: ${message}`)
}

/** The rope dict of one layer, null if the config says that it does not rotate. @param {Config} config @param {number} index @param {string} layerType @returns {Fields | null} */
export const ropeDict = (config, index, layerType) => {
  const { bases, unscaled_types, default_rope } = config.facts
  const stated = [config.fields.rope_scaling, config.fields.rope_parameters, bases ? null : default_rope]
  const label = config.label(layerType)
  let rope = stated.find(isTruthy) ?? {}
  if (Object.values(rope).some(isDict)) rope = rope[label]
  else if ((bases && !bases[label]?.scaled) || unscaled_types?.includes(layerType)) rope = {}
  if (!rope) return null
  /** @type {Fields} */
  const fields = {}
  for (const [key, value] of Object.entries(rope)) if (value !== null) fields[ALIASES[key] ?? key] = value
  for (const [listKey, key] of PER_LAYER) {
    const values = config.fields[listKey]
    if (Array.isArray(values) && values.length) fields[key] = checkedPerLayer(config, listKey, values)[index]
  }
  return fields.rope_theta === 0 ? null : fields
}

/** The base of a rotation and where it stands. @param {Config} config @param {Fields} rope @param {string} layerType @returns {[number, string]} */
export const baseOf = (config, rope, layerType) => {
  const { bases, defaults, base, inside } = config.facts
  const rule = bases?.[config.label(layerType)]
  const topKeys = rule ? [rule.key] : BASE_KEYS
  for (const key of BASE_KEYS) if (typeof rope[key] === "number") return [rope[key], "rope_parameters"]
  for (const key of topKeys) if (typeof config.fields[key] === "number") return [config.fields[key], "the config"]
  const inGroup = inside?.rope_theta && config.get("rope_theta") // such as DBRX's, in attn_config
  if (!rule && typeof inGroup === "number") return [inGroup, "the config"]
  const fromCode = rule ? rule.base : defaults?.rope_theta || base
  if (fromCode) return [fromCode, FROM_CODE]
  throw new Error(
    `plan: rope_theta must be in the config of ${config.modelType}, got None; add it: its code has no default`,
  )
}

/** The share of a head that turns. @param {Config} config @param {Fields} rope @param {number} width */
const shareOf = (config, rope, width) => {
  for (const fields of [rope, config.fields])
    for (const key of SHARE_KEYS) if (typeof fields[key] === "number") return fields[key]
  const rotaryDim = config.facts.unread_keys?.includes("rotary_dim") ? null : config.get("rotary_dim")
  return rotaryDim ? rotaryDim / width : (config.facts.share ?? 1)
}

/** @param {Config} config @param {Fields} rope @param {string} layerType @param {number} width @param {number} length @returns {Frequencies & { base: number, source: string }} */
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
  return { ...fromConfig(fields, width), base, source }
}

/** @param {Fields} fields @param {number} dim @returns {Frequencies} */
const fromConfig = (fields, dim) => {
  const ropeType = fields.rope_type
  if (!Object.hasOwn(ROPE_TYPES, ropeType))
    throw new Error(
      `from_config: rope_type must be one of ${Object.keys(ROPE_TYPES).join(", ")}, got ${repr(ropeType)}`,
    )
  const [width, base] = widthAndBase(fields, dim, ropeType)
  const hasFactor = ropeType === "yarn" || ROPE_TYPES[ropeType] === LONGROPE
  if (hasFactor && fields[LONGEST]) fields.factor ??= fields[LONGEST] / fields[TRAINED]
  const { needed, make } = ropeType === "dynamic" && fields.alpha ? ALPHA : ROPE_TYPES[ropeType]
  for (const key of needed)
    if (fields[key] === undefined) throw new Error(`plan: ${key} must be stated for ${ropeType}, got None; add it`)
  check(width % 2 === 0 && width >= 2, `dim must be even and at least 2, got ${width}`)
  check(base > 1 && base < Infinity, `base must be finite and above 1, got ${base % 1 ? base : base.toFixed(1)}`)
  const { theta, attention } = make(width, base, fields)
  const mscale = fields.length > fields[TRAINED] ? "long_mscale" : "short_mscale"
  const attentionFactor = hasFactor ? (fields.attention_factor ?? fields[mscale] ?? attention) : attention
  return { theta: Array.from(theta), attentionFactor }
}

/** @param {Fields} fields @param {number} dim @param {string} ropeType @returns {[number, number]} */
const widthAndBase = (fields, dim, ropeType) => {
  const base = fields.rope_theta * (fields.rope_ratio ?? 1)
  if (ropeType === "proportional") return [dim, base]
  const r = Math.trunc(dim * (fields.partial_rotary_factor ?? 1))
  if (r > dim) throw new Error(`from_config: dim must be at least ${r}, which turn, got ${dim}`)
  if (r % 2 && r < dim && ropeType !== "dynamic" && ropeType !== "yarn") return [r + 1, base ** (1 + 1 / r)]
  return [r, base]
}
