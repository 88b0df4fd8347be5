// Traps and contradictions of a configuration. posenc.config.warnings in another language.

import { misspelled, problem } from "./keys.js"
import { filled, isDict, isTruthy, withCommas } from "./rules.js"
import { LONGEST, TRAINED } from "./rotation.js"

/** @import { Layer } from "./layer.js" */
/** @import { Config } from "./model-types.js" */
/** @import { Fields, Rules } from "./rules.js" */
/** @typedef {Layer & { theta: number[] }} Rotating */

/** @param {Config} config @param {Layer[]} layers @returns {string[]} */
export const collectWarnings = (config, layers) => {
  const rotating = /** @type {Rotating[]} */ (layers.filter(({ theta }) => theta))
  const result = [...unrotated(config, layers, rotating), ...bases(config, rotating), ...widths(config, rotating)]
  for (const [name, rope] of ropeDicts(config)) {
    for (const unread of unreadKeys(rope, config.rules))
      result.push(filled(config.rules.sentences.UNREAD_KEY, { name, ...unread }))
    result.push(...lengths(config, name, rope))
  }
  return [...new Set([...result, ...slowPairs(config, rotating)])]
}

/** Refuse what would be left out without an error. @param {Config} config */
export const refuseMisspelled = (config) => {
  const { sentences } = config.rules
  const reason = misspelled(config.fields, {}, config.rules)
  if (reason) {
    const { key: value, remedy } = reason
    throw new Error(filled(sentences.MISSPELLED, { condition: "of known keys", value, remedy }))
  }
  for (const [name, rope] of ropeDicts(config)) {
    const wrong = unreadKeys(rope, config.rules).find(({ remedy }) => remedy.startsWith("did you mean"))
    if (wrong) throw new Error(filled(sentences.MISSPELLED_INSIDE, { name, ...wrong }))
  }
}

/** What the configuration says of rotations, part by part, under its name.
 * @type {(config: Config) => [string, Fields][]} */
const ropeDicts = ({ fields }) =>
  ["rope_scaling", "rope_parameters"]
    .filter((name) => isTruthy(fields[name]))
    .flatMap((name) => {
      const parts = Object.entries(fields[name]).filter(([, part]) => isDict(part))
      const named = parts.map(([key, part]) => /** @type {[string, Fields]} */ ([`${name}['${key}']`, part]))
      return named.length ? named : [/** @type {[string, Fields]} */ ([name, fields[name]])]
    })

/** @param {Config} config @param {Layer[]} layers @param {Rotating[]} rotating */
const unrotated = ({ facts, rules }, layers, rotating) => {
  const { MARKS, NO_LAYER_ROTATES } = rules.sentences
  const by_list = facts.nope?.by_list
  if (by_list) return [filled(MARKS, { by_list, rotating: rotating.length, layers: layers.length })]
  return rotating.length ? [] : [NO_LAYER_ROTATES]
}

/** @param {Config} config @param {Rotating[]} rotating */
const bases = ({ fields, rules }, rotating) => {
  const { sentences } = rules
  const result = []
  const defaults = rotating.filter(({ why }) => why.endsWith(sentences.FROM_CODE)).map(({ base }) => base ?? 0)
  const distinct = [...new Set(defaults)].sort((a, b) => a - b).map(withCommas)
  if (distinct.length) result.push(filled(sentences.BASE_FROM_CODE, { bases: distinct.join(" and ") }))
  const { rope_scaling: scaling, rope_parameters: rope } = fields
  const [inside, outside] = [rope?.rope_theta, fields.rope_theta]
  if (typeof inside === "number" && typeof outside === "number" && inside !== outside)
    result.push(filled(sentences.TWO_BASES, { outside, inside }))
  if (isTruthy(scaling) && isTruthy(rope) && !isEqual(scaling, rope)) result.push(sentences.TWO_DICTS)
  return result
}

/** Whether two values of JSON are equal, in whatever order their keys stand. @type {(a: any, b: any) => boolean} */
const isEqual = (a, b) => {
  if (a === null || b === null || typeof a !== "object" || typeof b !== "object") return a === b
  const keys = Object.keys(a)
  return keys.length === Object.keys(b).length && keys.every((key) => key in b && isEqual(a[key], b[key]))
}

/** @param {Config} config @param {Rotating[]} rotating */
const widths = (config, rotating) => {
  const [hidden, heads, headDim] = ["hidden_size", "num_attention_heads", "head_dim"].map((name) => config.get(name))
  const { OTHER_WIDTH, OTHER_WIDTH_OF_TYPE, PART_ROTATES } = config.rules.sentences
  const stated = "slice" in config.facts ? null : headDim
  const result = []
  const divided = Math.floor(hidden / heads)
  if (stated && hidden && heads && divided !== stated) result.push(filled(OTHER_WIDTH, { stated, divided }))
  for (const { layer_type, slice, head_dim, theta } of rotating) {
    const width = slice[1] - slice[0]
    if (stated && head_dim !== stated) result.push(filled(OTHER_WIDTH_OF_TYPE, { layer_type, width: head_dim, stated }))
    if (2 * theta.length < width) result.push(filled(PART_ROTATES, { rotated: 2 * theta.length, width, layer_type }))
  }
  return result
}

/** The keys of a rope dict that are not read, each with what may help. @param {Fields} rope @param {Rules} rules */
const unreadKeys = (rope, rules) => {
  const rest = { ...rope }
  const result = []
  for (let reason = problem(rest, rules); reason; reason = problem(rest, rules)) {
    result.push(reason)
    if (!(reason.key in rest)) break
    delete rest[reason.key]
  }
  return result
}

/** @param {Config} config @param {string} name @param {Fields} rope */
const lengths = (config, name, rope) => {
  const { FROM_TRAINED, sentences } = config.rules
  const result = []
  const ropeType = "rope_type" in rope ? rope.rope_type : rope.type
  const longest = config.get(LONGEST)
  const trained = config.fields[TRAINED] || rope[TRAINED]
  if (FROM_TRAINED.includes(ropeType) && !trained && longest)
    result.push(filled(sentences.NO_TRAINED_LENGTH, { name, rope_type: ropeType, longest }))
  const { factor } = rope
  const extended = factor * trained
  if (ropeType === "yarn" && trained && longest && factor && extended !== longest && longest !== trained)
    result.push(filled(sentences.OTHER_LENGTH, { name, factor, trained, extended, longest }))
  return result
}

/** @param {Config} config @param {Rotating[]} rotating */
const slowPairs = (config, rotating) =>
  rotating.flatMap(({ theta, window, layer_type }) => {
    const reach = Math.min(...[config.get(LONGEST), window].filter(Boolean))
    const slow = theta.filter((t) => Math.abs(t) * reach < 2 * Math.PI).length
    if (!Number.isFinite(reach) || !slow) return []
    const limit = window && reach === window ? "window" : "length"
    return [filled(config.rules.sentences.SLOW_PAIRS, { slow, pairs: theta.length, limit, reach, layer_type })]
  })
