// Traps and contradictions of a configuration. posenc.config.warnings in another language.

import { misspelled, problem } from "./keys.js"
import { isDict, isTruthy, withCommas } from "./model-types.js"
import { FROM_CODE, LONGEST, TRAINED } from "./rotation.js"

/** @typedef {import("./model-types.js").Config} Config */
/** @typedef {import("./layer.js").Layer} Layer */
/** @typedef {Layer & { theta: number[] }} Rotating */
/** @typedef {Record<string, any>} Fields */

const sixDigits = (/** @type {number} */ value) => String(Number(value.toPrecision(6)))

/** @param {Config} config @param {Layer[]} layers @returns {string[]} */
export const collectWarnings = (config, layers) => {
  const rotating = /** @type {Rotating[]} */ (layers.filter(({ theta }) => theta))
  const result = [...unrotated(config, layers, rotating), ...bases(config, rotating), ...widths(config, rotating)]
  for (const [name, rope] of ropeDicts(config)) {
    result.push(...unreadKeys(rope).map(({ key, remedy }) => `${name}: ${key} is not read; ${remedy}`))
    result.push(...lengths(config, name, rope))
  }
  return [...new Set([...result, ...slowPairs(config, rotating)])]
}

/** Refuse what would be left out without an error. @param {Config} config */
export const refuseMisspelled = (config) => {
  const reason = misspelled(config.fields, {})
  if (reason) throw new Error(`plan: config must be spelled in known words, got ${reason.key}; ${reason.remedy}`)
  for (const [name, rope] of ropeDicts(config)) {
    const wrong = unreadKeys(rope).find(({ remedy }) => remedy.startsWith("did you mean"))
    if (wrong) throw new Error(`plan: ${name} must be of words that are read, got ${wrong.key}; ${wrong.remedy}`)
  }
}

/** What the configuration says of rotations, part by part, under its name. @param {Config} config @returns {[string, Fields][]} */
const ropeDicts = ({ fields }) =>
  ["rope_scaling", "rope_parameters"]
    .filter((name) => isTruthy(fields[name]))
    .flatMap((name) => {
      const parts = Object.entries(fields[name]).filter(([, part]) => isDict(part))
      const named = parts.map(([key, part]) => /** @type {[string, Fields]} */ ([`${name}['${key}']`, part]))
      return named.length ? named : [/** @type {[string, Fields]} */ ([name, fields[name]])]
    })

/** @param {Config} config @param {Layer[]} layers @param {Rotating[]} rotating */
const unrotated = ({ facts }, layers, rotating) => {
  const list = facts.nope?.by_list
  if (list)
    return [`${list}: 1 means that a layer rotates, 0 that it does not; ${rotating.length} of ${layers.length} do`]
  return rotating.length ? [] : ["no layer rotates; a rope_theta in this config has no effect"]
}

/** @param {Config} config @param {Rotating[]} rotating */
const bases = ({ fields }, rotating) => {
  const result = []
  const defaults = rotating.filter(({ why }) => why.endsWith(`from ${FROM_CODE}`)).map(({ base }) => base ?? 0)
  const distinct = [...new Set(defaults)].sort((a, b) => a - b).map(withCommas)
  if (distinct.length) result.push(`rope_theta is not in the config: the code takes ${distinct.join(" and ")}`)
  const { rope_scaling: scaling, rope_parameters: rope } = fields
  const [inside, outside] = [rope?.rope_theta, fields.rope_theta]
  if (typeof inside === "number" && typeof outside === "number" && inside !== outside)
    result.push(
      `rope_theta is ${withCommas(outside)} at the top, ${withCommas(inside)} in rope_parameters, which counts`,
    )
  if (isTruthy(scaling) && isTruthy(rope) && !isEqual(scaling, rope))
    result.push("rope_scaling and rope_parameters differ; rope_scaling counts")
  return result
}

/** Whether two values of JSON are equal, in whatever order their keys stand. @param {any} a @param {any} b @returns {boolean} */
const isEqual = (a, b) => {
  if (a === null || b === null || typeof a !== "object" || typeof b !== "object") return a === b
  const keys = Object.keys(a)
  return keys.length === Object.keys(b).length && keys.every((key) => key in b && isEqual(a[key], b[key]))
}

/** @param {Config} config @param {Rotating[]} rotating */
const widths = (config, rotating) => {
  const [hidden, heads, headDim] = ["hidden_size", "num_attention_heads", "head_dim"].map((name) => config.get(name))
  const stated = "slice" in config.facts ? null : headDim
  const result = []
  const divided = Math.floor(hidden / heads)
  if (stated && hidden && heads && divided !== stated)
    result.push(`heads are ${stated} wide by head_dim, not hidden_size / num_attention_heads = ${divided}`)
  for (const layer of rotating) {
    const width = layer.slice[1] - layer.slice[0]
    if (stated && layer.head_dim !== stated)
      result.push(`heads of ${layer.layer_type} are ${layer.head_dim} wide, not head_dim = ${stated}`)
    if (2 * layer.theta.length < width)
      result.push(`${2 * layer.theta.length} of ${width} channels turn in ${layer.layer_type}`)
  }
  return result
}

/** The keys of a rope dict that are not read, each with what may help. @param {Fields} rope */
const unreadKeys = (rope) => {
  const rest = { ...rope }
  const result = []
  for (let reason = problem(rest); reason; reason = problem(rest)) {
    result.push(reason)
    if (!(reason.key in rest)) break
    delete rest[reason.key]
  }
  return result
}

/** @param {Config} config @param {string} name @param {Fields} rope */
const lengths = (config, name, rope) => {
  const result = []
  const ropeType = "rope_type" in rope ? rope.rope_type : rope.type
  const longest = config.get(LONGEST)
  const trained = config.fields[TRAINED] || rope[TRAINED]
  if (["yarn", "llama3", "longrope"].includes(ropeType) && !trained && longest)
    result.push(`${name}: ${ropeType} without ${TRAINED}; ${LONGEST}, ${withCommas(longest)}, is taken for it`)
  const { factor } = rope
  const stretched = factor * trained
  if (ropeType === "yarn" && trained && longest && factor && stretched !== longest && longest !== trained)
    result.push(
      `${name}: factor ${sixDigits(factor)} times ${withCommas(trained)} is ${withCommas(stretched)}, ` +
        `${LONGEST} is ${withCommas(longest)}`,
    )
  return result
}

/** @param {Config} config @param {Rotating[]} rotating */
const slowPairs = (config, rotating) =>
  rotating.flatMap(({ theta, window, layer_type }) => {
    const reach = Math.min(...[config.get(LONGEST), window].filter(Boolean))
    const count = theta.filter((t) => Math.abs(t) * reach < 2 * Math.PI).length
    if (!Number.isFinite(reach) || !count) return []
    const limit = window && reach === window ? "window" : "length"
    return [
      `${count} of ${theta.length} pairs never turn once within the ${limit} of ${withCommas(reach)} in ${layer_type}`,
    ]
  })
