// How fast each pair of a layer turns. posenc.reading.rotation and posenc.rotate.from_config in another language.

import { dynamicNtk, linear, llama3, longrope, ntk, proportional, yarn } from "../math/scaling.js"
import { BASES } from "./keys.js"
import { isDict, shown, truth } from "./kinds.js"

/** @typedef {import("./kinds.js").Config} Config */
/** @typedef {Record<string, any>} Words */
/** @typedef {{ theta: number[], factor: number }} Found */

const [LONGEST, TRAINED] = ["max_position_embeddings", "original_max_position_embeddings"]
const SHARES = ["rotary_pct", "rotary_percent", "rotary_emb_fraction", "rope_pct", "rope_percent"]
SHARES.unshift("partial_rotary_factor")
/** @type {Words} */
const ALIASES = { type: "rope_type", max_seq_len: LONGEST }
for (const name of BASES.slice(1)) ALIASES[name] = "rope_theta"
for (const name of SHARES.slice(1)) ALIASES[name] = "partial_rotary_factor"

/** @type {Record<string, { needs: string[], make: (dim: number, base: number, said: Words) => import("../math/scaling.js").Stretched }>} */
const KINDS = {
  default: { needs: [], make: (dim, base) => linear(dim, 1, base) },
  mrope: { needs: [], make: (dim, base) => linear(dim, 1, base) },
  linear: { needs: ["factor"], make: (dim, base, { factor }) => linear(dim, factor, base) },
  dynamic: {
    needs: ["factor", LONGEST],
    make: (dim, base, said) =>
      said.alpha ? ntk(dim, said.alpha, base) : dynamicNtk(dim, said.factor, said.length, said[LONGEST], base),
  },
  yarn: { needs: ["factor", TRAINED], make: (dim, base, said) => stretched(dim, base, said) },
  longrope: {
    needs: ["short_factor", "long_factor", TRAINED, "factor"],
    make: (dim, base, said) => long(dim, base, said),
  },
  su: { needs: ["short_factor", "long_factor", TRAINED, "factor"], make: (dim, base, said) => long(dim, base, said) },
  llama3: {
    needs: ["factor", "low_freq_factor", "high_freq_factor", TRAINED],
    make: (dim, base, said) =>
      llama3(dim, said.factor, said[TRAINED], base, { low: said.low_freq_factor, high: said.high_freq_factor }),
  },
  proportional: {
    needs: [],
    make: (dim, base, said) => {
      const { theta, attention } = proportional(dim, said.partial_rotary_factor ?? 1, base)
      return { theta: theta.map((t) => t / (said.factor ?? 1)), attention }
    },
  },
}

/** @param {number} dim @param {number} base @param {Words} said */
const stretched = (dim, base, said) => {
  const { factor, mscale, mscale_all_dim } = said
  const grown = 0.1 * Math.log(Math.max(factor, 1))
  const attention = mscale && mscale_all_dim ? (mscale * grown + 1) / (mscale_all_dim * grown + 1) : undefined
  const ends = { fast: said.beta_fast ?? 32, slow: said.beta_slow ?? 1, truncate: said.truncate ?? true, attention }
  return yarn(dim, factor, said[TRAINED], base, ends)
}

/** @param {number} dim @param {number} base @param {Words} said */
const long = (dim, base, said) => {
  const chosen = said.length > said[TRAINED] ? said.long_factor : said.short_factor
  if (chosen.length !== dim / 2)
    throw new Error(`frequencies: short_factor and long_factor must be (${dim / 2},), got (${chosen.length},)`)
  return longrope(dim, chosen, said.factor, said[TRAINED], base)
}

/** @param {Words} rope @param {string} [word] whose null means: no rotation @returns {Words} */
const renamed = (rope, word) =>
  Object.fromEntries(
    Object.entries(rope)
      .filter(([name, value]) => value !== null || name === word)
      .map(([name, value]) => [ALIASES[name] ?? name, value]),
  )

/** What a configuration says of the rotation of one layer, null where it says: none. @param {Config} config @param {number} index @param {string} word @returns {Words | null} */
export const ropeDict = (config, index, word) => {
  const legacy = config.kind.bases
  const said = [config.said.rope_scaling, config.said.rope_parameters, legacy ? null : config.kind.rope]
  let rope = renamed(said.find(truth) ?? {}, word)
  const label = config.kind.labels?.[word] ?? word
  if (Object.values(rope).some(isDict)) {
    if (!rope[label]) return null
    rope = renamed(rope[label])
  } else if (legacy) {
    const rule = legacy[label]
    rope = { rope_theta: config.said[rule.key] || rule.base, ...(rule.scaled ? rope : {}) }
  }
  if (truth(config.said.layer_rope_theta)) rope.rope_theta = config.said.layer_rope_theta[index]
  return rope.rope_theta === 0 ? null : rope
}

/** @param {Config} config @param {Words} rope @returns {[number, string]} */
const baseOf = (config, rope) => {
  /** @type {[string, Words][]} */
  const places = [
    ["rope_parameters", rope],
    ["the config", config.said],
  ]
  for (const [where, said] of places)
    for (const name of BASES) if (typeof said[name] === "number") return [said[name], where]
  const found = config.get("rope_theta") || config.kind.base
  if (found === null || found === undefined)
    throw new Error(`plan: rope_theta must be in the config of ${config.modelType}, got None; its code has no default`)
  return [found, "the default of the code"]
}

/** @param {Config} config @param {Words} rope @param {number} width */
const shareOf = (config, rope, width) => {
  for (const said of [rope, config.said])
    for (const name of SHARES) if (typeof said[name] === "number") return said[name]
  const turning = config.get("rotary_dim")
  return turning ? turning / width : (config.kind.share ?? 1)
}

/** @param {Config} config @param {Words} rope @param {number} width @param {number | null} length @returns {Found & { base: number, where: string }} */
export const frequencies = (config, rope, width, length) => {
  const stated = rope.rope_type ?? "default"
  const kind = { axial: "default", ...config.kind.types }[stated] ?? stated
  const [base, where] = baseOf(config, rope)
  /** @type {Words} */
  const said = { ...config.kind.with?.[kind], ...rope, rope_theta: base, rope_type: kind }
  const share = shareOf(config, rope, width)
  delete said.partial_rotary_factor
  if (share !== 1 || kind === "proportional") said.partial_rotary_factor = share
  const longest = config.get(LONGEST)
  const trained = config.get(TRAINED) || said[TRAINED] || longest
  if (longest) said[LONGEST] = longest
  if (trained) said[TRAINED] = trained
  return { ...fromConfig(said, width, length ?? 1), base, where }
}

/** @param {Words} said @param {number} dim @param {number} length @returns {Found} */
const fromConfig = (said, dim, length) => {
  const kind = said.rope_type
  if (!(kind in KINDS))
    throw new Error(`from_config: rope_type must be one of ${Object.keys(KINDS).join(", ")}, got ${shown(kind)}`)
  said.length = length
  const scaled = kind === "yarn" || kind === "longrope" || kind === "su"
  if (scaled && said[LONGEST]) said.factor ??= said[LONGEST] / said[TRAINED]
  for (const name of said.alpha ? [] : KINDS[kind].needs)
    if (said[name] === undefined) throw new Error(`from_config: ${kind} needs ${name}, which this config lacks`)
  const [width, base] = widthAndBase(said, dim, kind)
  const { theta, attention } = KINDS[kind].make(width, base, said)
  const mscale = said.length > said[TRAINED] ? "long_mscale" : "short_mscale"
  const factor = scaled ? (said.attention_factor ?? said[mscale] ?? attention) : attention
  return { theta: Array.from(theta), factor }
}

/** @param {Words} said @param {number} dim @param {string} kind @returns {[number, number]} */
const widthAndBase = (said, dim, kind) => {
  const base = said.rope_theta * (said.rope_ratio ?? 1)
  if (kind === "proportional") return [dim, base]
  const share = said.partial_rotary_factor
  const width = share === undefined ? dim : Math.trunc(dim * share)
  if (width > dim) throw new Error(`from_config: dim must be at least ${width}, which turn, got ${dim}`)
  if (width % 2 && width < dim && kind !== "dynamic" && kind !== "yarn") return [width + 1, base ** (1 + 1 / width)]
  return [width, base]
}
