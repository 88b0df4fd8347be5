// Traps and contradictions of a configuration. posenc.config.warnings in another language.

import { misspelled, problem } from "./keys.js"
import { isDict, truth, whole } from "./model-types.js"
import { CODE, LONGEST, TRAINED } from "./rotation.js"

/** @typedef {import("./model-types.js").Config} Config */
/** @typedef {import("./layer.js").Layer} Layer */
/** @typedef {Layer & { theta: number[] }} Turning */
/** @typedef {Record<string, any>} Words */

const few = (/** @type {number} */ v) => String(Number(v.toPrecision(6)))

/** @param {Config} config @param {Layer[]} layers @returns {string[]} */
export const warnings = (config, layers) => {
  const turning = /** @type {Turning[]} */ (layers.filter(({ theta }) => theta))
  const found = [...still(config, layers, turning), ...bases(config, turning), ...widths(config, turning)]
  for (const [name, rope] of dicts(config)) {
    found.push(...unknown(rope).map(({ word, remedy }) => `${name}: ${word} is not read; ${remedy}`))
    found.push(...lengths(config, name, rope))
  }
  return [...new Set([...found, ...slow(config, turning)])]
}

/** Refuse what would be left out without an error. @param {Config} config */
export const refuseMisspelled = (config) => {
  const top = misspelled(config.said, {})
  if (top) throw new Error(`plan: config must be spelled in known words, got ${top.word}; ${top.remedy}`)
  for (const [name, rope] of dicts(config)) {
    const wrong = unknown(rope).find(({ remedy }) => remedy.startsWith("did you mean"))
    if (wrong) throw new Error(`plan: ${name} must be of words that are read, got ${wrong.word}; ${wrong.remedy}`)
  }
}

/** What the configuration says of rotations, part by part, under its name. @param {Config} config @returns {[string, Words][]} */
const dicts = ({ said }) =>
  ["rope_scaling", "rope_parameters"]
    .filter((name) => truth(said[name]))
    .flatMap((name) => {
      const parts = Object.entries(said[name]).filter(([, part]) => isDict(part))
      const named = parts.map(([key, part]) => /** @type {[string, Words]} */ ([`${name}['${key}']`, part]))
      return named.length ? named : [/** @type {[string, Words]} */ ([name, said[name]])]
    })

/** @param {Config} config @param {Layer[]} layers @param {Turning[]} turning */
const still = ({ kind }, layers, turning) => {
  const list = kind.nope?.by_list
  if (list)
    return [`${list}: 1 means that a layer rotates, 0 that it does not; ${turning.length} of ${layers.length} do`]
  return turning.length ? [] : ["no layer rotates; a rope_theta in this config has no effect"]
}

/** @param {Config} config @param {Turning[]} turning */
const bases = ({ said }, turning) => {
  const found = []
  const defaults = turning.filter(({ why }) => why.endsWith(`from ${CODE}`)).map(({ base }) => base ?? 0)
  const all = [...new Set(defaults)].sort((a, b) => a - b).map(whole)
  if (all.length) found.push(`rope_theta is not in the config: the code takes ${all.join(" and ")}`)
  const { rope_scaling: scaled, rope_parameters: rope } = said
  const [inside, outside] = [rope?.rope_theta, said.rope_theta]
  if (typeof inside === "number" && typeof outside === "number" && inside !== outside)
    found.push(`rope_theta is ${whole(outside)} at the top, ${whole(inside)} in rope_parameters, which counts`)
  if (truth(scaled) && truth(rope) && !same(scaled, rope))
    found.push("rope_scaling and rope_parameters differ; rope_scaling counts")
  return found
}

/** Whether two values of JSON are equal, in whatever order their keys stand. @param {any} a @param {any} b @returns {boolean} */
const same = (a, b) => {
  if (a === null || b === null || typeof a !== "object" || typeof b !== "object") return a === b
  const names = Object.keys(a)
  return names.length === Object.keys(b).length && names.every((name) => name in b && same(a[name], b[name]))
}

/** @param {Config} config @param {Turning[]} turning */
const widths = (config, turning) => {
  const [hidden, heads, stated] = ["hidden_size", "num_attention_heads", "head_dim"].map((name) => config.get(name))
  const plain = stated && !("slice" in config.kind)
  const found = []
  const divided = Math.floor(hidden / heads)
  if (plain && hidden && heads && divided !== stated)
    found.push(`heads are ${stated} wide by head_dim, not hidden_size / num_attention_heads = ${divided}`)
  for (const layer of turning) {
    const width = layer.slice[1] - layer.slice[0]
    if (plain && layer.head_dim !== stated)
      found.push(`heads of ${layer.kind} are ${layer.head_dim} wide, not head_dim = ${stated}`)
    if (2 * layer.theta.length < width)
      found.push(`${2 * layer.theta.length} of ${width} channels turn in ${layer.kind}`)
  }
  return found
}

/** The words of a rope dict that are not read, each with what may help. @param {Words} rope */
const unknown = (rope) => {
  const rest = { ...rope }
  const found = []
  for (let wrong = problem(rest); wrong; wrong = problem(rest)) {
    found.push(wrong)
    if (!(wrong.word in rest)) break
    delete rest[wrong.word]
  }
  return found
}

/** @param {Config} config @param {string} name @param {Words} rope */
const lengths = (config, name, rope) => {
  const found = []
  const kind = "rope_type" in rope ? rope.rope_type : rope.type
  const longest = config.get(LONGEST)
  const trained = config.said[TRAINED] || rope[TRAINED]
  if (["yarn", "llama3", "longrope"].includes(kind) && !trained && longest)
    found.push(`${name}: ${kind} without ${TRAINED}; ${LONGEST}, ${whole(longest)}, is taken for it`)
  const { factor } = rope
  const reached = factor * trained
  if (kind === "yarn" && trained && longest && factor && reached !== longest && longest !== trained)
    found.push(
      `${name}: factor ${few(factor)} times ${whole(trained)} is ${whole(reached)}, ${LONGEST} is ${whole(longest)}`,
    )
  return found
}

/** @param {Config} config @param {Turning[]} turning */
const slow = (config, turning) =>
  turning.flatMap(({ theta, window, kind }) => {
    const seen = Math.min(...[config.get(LONGEST), window].filter(Boolean))
    const count = theta.filter((t) => Math.abs(t) * seen < 2 * Math.PI).length
    if (!Number.isFinite(seen) || !count) return []
    const where = window && seen === window ? "window" : "length"
    return [`${count} of ${theta.length} pairs never turn once within the ${where} of ${whole(seen)} in ${kind}`]
  })
