// A configuration with what the code of its model type knows. posenc.config.model_types in another language.

import { closeMatches } from "./close-matches.js"

/** @typedef {Record<string, any>} Fields */
/** @typedef {Record<string, Fields>} Facts of every model type */

/** The fields of a configuration, with the facts of its model type. */
export class Config {
  /** @param {Fields} fields @param {string} modelType @param {Fields} facts */
  constructor(fields, modelType, facts) {
    this.fields = fields
    this.modelType = modelType
    this.facts = facts
  }

  /** What stands under a name of transformers or the model's own, then its code's default; null counts. @param {string} name @param {any} [fallback] */
  get(name, fallback = null) {
    const group = this.fields[this.facts.inside?.[name]]
    const fields = isTruthy(group) ? group : this.fields
    for (const key of [name, this.facts.names?.[name] ?? name]) if (key in fields) return fields[key]
    const defaults = this.facts.defaults ?? {}
    return name in defaults ? defaults[name] : fallback
  }

  /** A number that a plan cannot do without. @param {string} name @returns {number} */
  number(name) {
    const value = this.get(name)
    if (Number.isInteger(value) && value > 0) return value
    throw new Error(
      `plan: ${name} must be a positive integer in a config of ${this.modelType}, got ${repr(value)}; add it`,
    )
  }

  /** The name under which rope_parameters have the rotation of a type of layer. @param {string} layerType @returns {string} */
  label(layerType) {
    return this.facts.labels?.[layerType] ?? layerType
  }

  /** Refuse more layers than any model has. @param {number} count */
  checkLayers(count) {
    if (count > 10_000)
      throw new Error(
        `plan: num_hidden_layers must be at most 10,000 in a config of ${this.modelType}, got ${count}; correct it`,
      )
  }
}

/** The configuration with the facts of its model type. @param {Fields} fields @param {string | null} defaultType where it names none @param {Facts} allFacts */
export const resolve = (fields, defaultType, allFacts) => {
  const modelType = fields.model_type || defaultType
  if (typeof modelType !== "string" || !Object.hasOwn(allFacts, modelType)) {
    const name = typeof modelType === "string" ? modelType : repr(modelType)
    const near = closeMatches(name, Object.keys(allFacts), 3, 0.6).join(", ") || "llama, qwen3, gemma3_text"
    throw new Error(
      `plan: model_type must be one that transformers knows, got ${repr(modelType)}; if its ` +
        `attention is that of another, say so in model_type; near are ${near}`,
    )
  }
  const config = new Config(fields, modelType, allFacts[modelType])
  const layers = config.get("num_hidden_layers")
  if (Number.isInteger(layers)) config.checkLayers(layers)
  const { switch: other } = config.facts // such as Falcon with ALiBi
  if (other && config.get(other.key) === other.value) config.facts = { ...config.facts, ...other.to }
  return config
}

/** A value as Python writes it. @param {any} value @returns {string} */
export const repr = (value) => {
  if (value === null || value === undefined) return "None"
  if (typeof value === "boolean") return value ? "True" : "False"
  if (typeof value === "string") return `'${value}'`
  if (Array.isArray(value)) return `[${value.map(repr).join(", ")}]`
  if (!isDict(value)) return String(value)
  return `{${Object.entries(value)
    .map(([key, item]) => `${repr(key)}: ${repr(item)}`)
    .join(", ")}}`
}

/** A number, rounded, with its thousands apart. @param {number} value */
export const withCommas = (value) => String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ",")

/** @param {any} value @returns {value is Fields} */
export const isDict = (value) => value !== null && typeof value === "object" && !Array.isArray(value)

/** Whether Python would take a value for true. @param {any} value */
export const isTruthy = (value) =>
  Boolean(Array.isArray(value) ? value.length : isDict(value) ? Object.keys(value).length : value)
