// A configuration with what the code of its model type knows. posenc.config.model_types in another language.

import { closeMatches } from "./close-matches.js"
import { filled, isTruthy } from "./rules.js"

/** @import { Fields, Rules } from "./rules.js" */

/** The fields of a configuration, with the facts of its model type. */
export class Config {
  /** @param {Fields} fields @param {string} modelType @param {Rules} rules */
  constructor(fields, modelType, rules) {
    this.fields = fields
    this.modelType = modelType
    this.rules = rules
    this.facts = rules.model_types[modelType]
  }

  /** What stands under a name of transformers or the model's own, then its code's default; null counts.
   * @param {string} name @param {any} [fallback] */
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
    throw new Error(filled(this.rules.sentences.NO_NUMBER, { name, model_type: this.modelType, value }))
  }

  /** The name under which rope_parameters have the rotation of a type of layer. @param {string} layerType */
  label(layerType) {
    return this.facts.labels?.[layerType] ?? layerType
  }

  /** Refuse more layers than any model has. @param {number} count */
  checkLayers(count) {
    const { MOST_LAYERS: most, sentences } = this.rules
    if (count > most) throw new Error(filled(sentences.TOO_MANY_LAYERS, { most, model_type: this.modelType, count }))
  }
}

/** The configuration with the facts of its model type.
 * @param {Fields} fields @param {string | null} defaultType where it names none @param {Rules} rules */
export const resolve = (fields, defaultType, rules) => {
  const modelType = fields.model_type || defaultType
  if (typeof modelType !== "string" || !Object.hasOwn(rules.model_types, modelType)) {
    const near = closeMatches(String(modelType), Object.keys(rules.model_types), 3, 0.6)
    const names = (near.length ? near : rules.COMMON_TYPES).join(", ")
    throw new Error(filled(rules.sentences.UNKNOWN_MODEL_TYPE, { model_type: modelType, near: names }))
  }
  const config = new Config(fields, modelType, rules)
  const layers = config.get("num_hidden_layers")
  if (Number.isInteger(layers)) config.checkLayers(layers)
  const { switch: other } = config.facts // such as Falcon with ALiBi
  if (other && config.get(other.key) === other.value) config.facts = { ...config.facts, ...other.to }
  return config
}
