// A configuration with what the code of its model type knows. posenc.config.model_types in another language.

import { nearest } from "./close-matches.js"

/** @typedef {Record<string, any>} Words */

/** What a configuration says comes first, then what its code has as default. */
export class Config {
  /** @param {Words} said @param {string} modelType @param {Words} kind */
  constructor(said, modelType, kind) {
    this.said = said
    this.modelType = modelType
    this.kind = kind
  }

  /** What stands under a name of transformers or the model's own; null counts. @param {string} name @param {any} [otherwise] */
  get(name, otherwise = null) {
    const inner = this.said[this.kind.inside?.[name]]
    const said = truth(inner) ? inner : this.said
    for (const spelled of [name, this.kind.names?.[name] ?? name]) if (spelled in said) return said[spelled]
    const defaults = this.kind.defaults ?? {}
    return name in defaults ? defaults[name] : otherwise
  }

  /** A number that a plan cannot do without. @param {string} name @returns {number} */
  number(name) {
    const found = this.get(name)
    if (Number.isInteger(found) && found > 0) return found
    throw new Error(
      `plan: ${name} must be a positive integer in a config of ${this.modelType}, got ${shown(found)}; add it`,
    )
  }

  /** Refuse more layers than any model has. @param {string} name @param {number} count */
  checkLayers(name, count) {
    if (count > 10_000)
      throw new Error(`plan: ${name} must be at most 10,000 in a config of ${this.modelType}, got ${count}`)
  }
}

/** @param {Words} said @param {string | null} hint @param {Record<string, Words>} kinds */
export const known = (said, hint, kinds) => {
  const modelType = said.model_type || hint
  if (typeof modelType !== "string" || !Object.hasOwn(kinds, modelType)) {
    const word = typeof modelType === "string" ? modelType : shown(modelType)
    const near = nearest(word, Object.keys(kinds), 3, 0.6).join(", ") || "llama, qwen3, gemma3_text"
    throw new Error(
      `plan: model_type must be one that transformers knows, got ${shown(modelType)}; if its ` +
        `attention is that of another, say so in model_type; near are ${near}`,
    )
  }
  const config = new Config(said, modelType, kinds[modelType])
  const layers = config.get("num_hidden_layers")
  if (Number.isInteger(layers)) config.checkLayers("num_hidden_layers", layers)
  const { switch: other } = config.kind // such as Falcon with ALiBi
  if (other && config.get(other.key) === other.value) config.kind = { ...config.kind, ...other.to }
  return config
}

/** A value as Python writes it. @param {any} value @returns {string} */
export const shown = (value) => {
  if (value === null || value === undefined) return "None"
  if (typeof value === "boolean") return value ? "True" : "False"
  if (typeof value === "string") return `'${value}'`
  if (Array.isArray(value)) return `[${value.map(shown).join(", ")}]`
  if (!isDict(value)) return String(value)
  return `{${Object.entries(value)
    .map(([name, inner]) => `${shown(name)}: ${shown(inner)}`)
    .join(", ")}}`
}

/** A number with its thousands apart. @param {number} value */
export const whole = (value) => String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ",")

/** @param {any} value @returns {value is Words} */
export const isDict = (value) => value !== null && typeof value === "object" && !Array.isArray(value)

/** Whether Python would take a value for true. @param {any} value */
export const truth = (value) =>
  Boolean(Array.isArray(value) ? value.length : isDict(value) ? Object.keys(value).length : value)
