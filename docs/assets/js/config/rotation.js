// How fast each pair of a layer turns. posenc.config.rotation and posenc.models.from_config in another language.

import { dynamicNtk, linear, llama3, longrope, ntk, proportional, yarn } from "../math/scaling.js"
import { BASES } from "./keys.js"
import { isDict, shown, truth } from "./model-types.js"
import { oneEach } from "./layer-types.js"

/** @typedef {import("./model-types.js").Config} Config */
/** @typedef {Record<string, any>} Words */
/** @typedef {{ theta: number[], factor: number }} Found */

export const LONGEST = "max_position_embeddings"
export const TRAINED = "original_max_position_embeddings"
export const CODE = "the code"
const SHARES = ["rotary_pct", "rotary_percent", "rotary_emb_fraction", "rope_pct", "rope_percent"]
SHARES.unshift("partial_rotary_factor")
/** @type {Words} */
const ALIASES = { type: "rope_type", max_seq_len: LONGEST }
for (const name of BASES.slice(1)) ALIASES[name] = "rope_theta"
for (const name of SHARES.slice(1)) ALIASES[name] = "partial_rotary_factor"
const LISTS = [
  ["rope_theta", "rope_theta"],
  ["layer_rope_theta", "rope_theta"],
  ["partial_rotary_factors", "partial_rotary_factor"],
] // a number for each layer

/** @typedef {{ needs: string[], make: (dim: number, base: number, said: Words) => import("../math/scaling.js").Stretched }} Kind */
/** @type {Kind} */
const PLAIN = { needs: [], make: (dim, base) => linear(dim, 1, base) }
/** @type {Kind} Hunyuan's, the same at every length */
const ALPHA = { needs: [], make: (dim, base, said) => ntk(dim, said.alpha, base) }
/** @type {Kind} */
const LONG = {
  needs: ["short_factor", "long_factor", TRAINED, "factor"],
  make: (dim, base, said) => {
    const chosen = said.length > said[TRAINED] ? said.long_factor : said.short_factor
    check(chosen.length === dim / 2, `short_factor and long_factor must be (${dim / 2},), got (${chosen.length},)`)
    return longrope(dim, chosen, said.factor, said[TRAINED], base)
  },
}
/** @type {Record<string, Kind>} */
const KINDS = {
  default: PLAIN,
  mrope: PLAIN,
  linear: { needs: ["factor"], make: (dim, base, { factor }) => linear(dim, factor, base) },
  dynamic: {
    needs: ["factor", LONGEST],
    make: (dim, base, said) => dynamicNtk(dim, said.factor, said.length, said[LONGEST], base),
  },
  yarn: {
    needs: ["factor", TRAINED],
    make: (dim, base, said) => {
      const { factor, mscale, mscale_all_dim, beta_fast: fast = 32, beta_slow: slow = 1, truncate = true } = said
      check(fast >= slow, `beta_fast must be at least ${slow}, got ${fast}`)
      const grown = 0.1 * Math.log(Math.max(factor, 1))
      const attention = mscale && mscale_all_dim ? (mscale * grown + 1) / (mscale_all_dim * grown + 1) : undefined
      return yarn(dim, factor, said[TRAINED], base, { fast, slow, truncate, attention })
    },
  },
  longrope: LONG,
  su: LONG,
  llama3: {
    needs: ["factor", "low_freq_factor", "high_freq_factor", TRAINED],
    make: (dim, base, { factor, low_freq_factor: low, high_freq_factor: high, ...said }) => {
      check(high >= low, `high_freq_factor must be at least ${low}, got ${high}`)
      return llama3(dim, factor, said[TRAINED], base, { low, high })
    },
  },
  proportional: {
    needs: [],
    make: (dim, base, { partial_rotary_factor: fraction = 1, factor = 1 }) => {
      check(fraction > 0 && fraction <= 1, `fraction must be above 0 and at most 1, got ${fraction}`)
      const { theta, attention } = proportional(dim, fraction, base)
      return { theta: theta.map((t) => t / factor), attention }
    },
  },
}

/** @param {boolean} right @param {string} words */
const check = (right, words) => {
  if (!right) throw new Error(`frequencies: ${words}`)
}

/** What a configuration says of the rotation of one layer, null where it says: none. @param {Config} config @param {number} index @param {string} word @returns {Words | null} */
export const ropeDict = (config, index, word) => {
  const { bases, labels, plain, rope: usual } = config.kind
  const stated = [config.said.rope_scaling, config.said.rope_parameters, bases ? null : usual]
  let rope = stated.find(truth) ?? {}
  const label = labels?.[word] ?? word
  if (Object.values(rope).some(isDict)) rope = rope[label]
  else if ((bases && !bases[label]?.scaled) || plain?.includes(word)) rope = {}
  if (!rope) return null
  /** @type {Words} */
  const said = {}
  for (const [name, value] of Object.entries(rope)) if (value !== null) said[ALIASES[name] ?? name] = value
  for (const [own, name] of LISTS) {
    const list = config.said[own]
    if (Array.isArray(list) && list.length) said[name] = oneEach(config, own, list)[index]
  }
  return said.rope_theta === 0 ? null : said
}

/** The base of a rotation and where it stands. @param {Config} config @param {Words} rope @param {string} word @returns {[number, string]} */
export const baseOf = (config, rope, word) => {
  const { bases, labels, defaults, base, inside } = config.kind
  const legacy = bases?.[labels?.[word] ?? word]
  const names = legacy ? [legacy.key] : BASES
  for (const name of BASES) if (typeof rope[name] === "number") return [rope[name], "rope_parameters"]
  for (const name of names) if (typeof config.said[name] === "number") return [config.said[name], "the config"]
  const inner = inside?.rope_theta && config.get("rope_theta") // such as DBRX's, in attn_config
  if (!legacy && typeof inner === "number") return [inner, "the config"]
  const found = legacy ? legacy.base : defaults?.rope_theta || base
  if (found) return [found, CODE]
  throw new Error(`plan: rope_theta must be in the config of ${config.modelType}, got None; its code has no default`)
}

/** The share of a head that turns. @param {Config} config @param {Words} rope @param {number} width */
const shareOf = (config, rope, width) => {
  for (const said of [rope, config.said])
    for (const name of SHARES) if (typeof said[name] === "number") return said[name]
  const turning = config.kind.unread?.includes("rotary_dim") ? null : config.get("rotary_dim")
  return turning ? turning / width : (config.kind.share ?? 1)
}

/** @param {Config} config @param {Words} rope @param {string} word @param {number} width @param {number} length @returns {Found & { base: number, where: string }} */
export const frequencies = (config, rope, word, width, length) => {
  const stated = rope.rope_type ?? "default"
  const kind = { axial: "default", ...config.kind.types }[stated] ?? stated
  const [base, where] = baseOf(config, rope, word)
  /** @type {Words} */
  const said = { ...config.kind.with?.[kind], ...rope, rope_theta: base, rope_type: kind, length }
  const share = "slice" in config.kind ? 1 : shareOf(config, rope, width)
  delete said.partial_rotary_factor
  if (share !== 1 || kind === "proportional") said.partial_rotary_factor = share
  const longest = config.get(LONGEST) || said[LONGEST]
  const trained = config.get(TRAINED) || said[TRAINED] || longest
  if (longest) said[LONGEST] = longest
  if (trained) said[TRAINED] = trained
  return { ...fromConfig(said, width), base, where }
}

/** @param {Words} said @param {number} dim @returns {Found} */
const fromConfig = (said, dim) => {
  const kind = said.rope_type
  if (!Object.hasOwn(KINDS, kind))
    throw new Error(`from_config: rope_type must be one of ${Object.keys(KINDS).join(", ")}, got ${shown(kind)}`)
  const [width, base] = widthAndBase(said, dim, kind)
  const scaled = kind === "yarn" || KINDS[kind] === LONG
  if (scaled && said[LONGEST]) said.factor ??= said[LONGEST] / said[TRAINED]
  const { needs, make } = kind === "dynamic" && said.alpha ? ALPHA : KINDS[kind]
  for (const name of needs)
    if (said[name] === undefined) throw new Error(`plan: ${name} must be stated for ${kind}, got None; add it`)
  check(width % 2 === 0 && width >= 2, `dim must be even and at least 2, got ${width}`)
  check(base > 1 && base < Infinity, `base must be finite and above 1, got ${base % 1 ? base : base.toFixed(1)}`)
  const { theta, attention } = make(width, base, said)
  const mscale = said.length > said[TRAINED] ? "long_mscale" : "short_mscale"
  const factor = scaled ? (said.attention_factor ?? said[mscale] ?? attention) : attention
  return { theta: Array.from(theta), factor }
}

/** @param {Words} said @param {number} dim @param {string} kind @returns {[number, number]} */
const widthAndBase = (said, dim, kind) => {
  const base = said.rope_theta * (said.rope_ratio ?? 1)
  if (kind === "proportional") return [dim, base]
  const width = Math.trunc(dim * (said.partial_rotary_factor ?? 1))
  if (width > dim) throw new Error(`from_config: dim must be at least ${width}, which turn, got ${dim}`)
  if (width % 2 && width < dim && kind !== "dynamic" && kind !== "yarn") return [width + 1, base ** (1 + 1 / width)]
  return [width, base]
}
