// Of which type each layer is, and which do not rotate.
// posenc.config.layer_types in another language, whose docstring has the rules.

import { filled, isTruthy } from "./rules.js"

/** @import { Config } from "./model-types.js" */
/** @typedef {Record<string, any>} Fields */

/** The type of each layer, that of `layer_types` where the configuration has them.
 * @type {(config: Config) => string[]} */
export const layerTypesOf = (config) => {
  const stated = config.get("layer_types")
  if (isTruthy(stated)) {
    const count = statedCount(config, stated)
    const { RENAMED } = config.rules
    return stated.slice(0, count).map((/** @type {string} */ layerType) => RENAMED[layerType] ?? String(layerType))
  }
  const count = config.number("num_hidden_layers")
  const rule = config.facts.layers ?? { all: "full_attention" }
  if (rule === "unknown")
    throw new Error(filled(config.rules.sentences.NO_LAYER_TYPES, { model_type: config.modelType }))
  return byRule(config, rule, count)
}

/** The number of layers; `layer_types` that are not one for each are refused, but for those that predict further
 * tokens.
 * @type {(config: Config, stated: string[]) => number} */
const statedCount = (config, stated) => {
  if (config.get("num_hidden_layers") === null) {
    config.checkLayers(stated.length)
    return stated.length
  }
  const count = config.number("num_hidden_layers")
  const further = config.get("num_nextn_predict_layers")
  if (![count, count + (Number.isInteger(further) ? further : 0)].includes(stated.length))
    throw wrongCount(config, "layer_types", count, stated)
  return count
}

/** @param {Config} config @param {string} name @param {number} count @param {{ length: number }} stated */
const wrongCount = ({ rules }, name, count, stated) =>
  new Error(filled(rules.sentences.WRONG_COUNT, { name, count, stated: stated.length }))

/** The type of each layer by a rule of model_types.json.
 * @type {(config: Config, rule: Fields, count: number) => string[]} */
const byRule = (config, rule, count) => {
  const indices = Array.from({ length: count }, (_, index) => index)
  if ("window_from_layer" in rule) return indices.map((index) => windowFromLayer(config, index))
  if ("map" in rule) {
    const stated = config.get(rule.map)
    if (!isTruthy(stated) && "without_list" in rule) return byRule(config, rule.without_list, count)
    const names = isTruthy(stated) ? checkedPerLayer(config, rule.map, stated) : []
    return indices.map((index) => rule.to[names[index] ?? ""] ?? rule.other)
  }
  if ("cycle" in rule) return indices.map((index) => rule.first[index] ?? rule.cycle[index % rule.cycle.length])
  if ("by_list" in rule) return markedLayers(config, rule).map((marked) => (marked ? rule.type : rule.other))
  return indices.map((index) => ("period" in rule ? periodic(config, rule, index, count) : rule.all))
}

/** The type where one layer in each period differs, and perhaps some at the ends.
 * @type {(config: Config, rule: Fields, index: number, count: number) => any} */
const periodic = (config, rule, index, count) => {
  const period = config.get(rule.period_key ?? "", rule.period) || 0
  if (period < 1) return rule.type
  const fallback = period === rule.period ? rule.offset : rule.offset ? period - 1 : 0
  const offset = config.get(rule.offset_key ?? "", fallback)
  const counted = rule.from_end ? count - 1 - index : index
  const isExtra = rule.also?.includes(index) || (rule.last && index === count - 1)
  return counted % period === offset || isExtra ? rule.type : rule.other
}

/** Qwen2's rule: layers from max_window_layers on see a window, if any. @param {Config} config @param {number} index */
const windowFromLayer = (config, index) => {
  const hasWindow = config.get("use_sliding_window", true) && config.get("sliding_window")
  return hasWindow && index >= config.get("max_window_layers", 0) ? "sliding_attention" : "full_attention"
}

/** For each layer whether a list of the configuration marks it, or has its number.
 * @type {(config: Config, rule: Fields) => boolean[]} */
const markedLayers = (config, rule) => {
  const marks = config.get(rule.by_list, rule.default_list)
  const count = config.number("num_hidden_layers")
  const indices = Array.from({ length: count }, (_, index) => index)
  if (!isTruthy(marks)) {
    const period = config.get(rule.period_key ?? "", rule.default_period ?? 0)
    return indices.map((index) => !period || (index + 1) % period !== 0)
  }
  if ("counted_from" in rule) return indices.map((index) => marks.includes(index + rule.counted_from))
  return checkedPerLayer(config, rule.by_list, marks).slice(0, count).map(isTruthy)
}

/** A list that has a value for each layer, and perhaps for layers beyond the last.
 * @template {{ length: number }} T @param {Config} config @param {string} name @param {T} stated @returns {T} */
export const checkedPerLayer = (config, name, stated) => {
  const count = config.number("num_hidden_layers")
  if (stated.length < count) throw wrongCount(config, name, count, stated)
  return stated
}

/** How many keys a query of such a layer sees, null for all. @param {Config} config @param {string} layerType */
export const windowOf = (config, layerType) => {
  const inAll = config.facts.window === "all" && layerType === "full_attention"
  const key = config.rules.WINDOW_KEYS[layerType] ?? (inAll ? "sliding_window" : null)
  const size = key ? config.get(key) : null
  return Number.isInteger(size) && size > 0 ? size : null
}

/** For each layer why it does not rotate, null where it does.
 * @type {(config: Config, layerTypes: string[]) => (string | null)[]} */
export const unrotatedReasons = (config, layerTypes) => {
  const { sentences, WITHOUT_ATTENTION } = config.rules
  const rule = config.facts.nope ?? {}
  const marks = "by_list" in rule ? markedLayers(config, rule) : layerTypes.map(() => true)
  const [field, value] = rule.unless ?? []
  const unrotated = isTruthy(config.fields[rule.unless_list]) ? [] : (rule.types ?? [])
  const crossing = crossAttentionLayers(config, rule)
  return layerTypes.map((layerType, index) => {
    if (WITHOUT_ATTENTION.includes(layerType)) return sentences.NO_SOFTMAX
    if (crossing.includes(index)) return sentences.CROSS_ATTENTION
    if (field && config.get(field) !== value) return filled(sentences.OTHER_VALUE, { field, value })
    if (unrotated.includes(layerType) && config.get(rule.if ?? "", true))
      return filled(sentences.UNROTATED_TYPE, { layer_type: layerType, model_type: config.modelType })
    return marks[index] ? null : filled(sentences.UNMARKED, rule)
  })
}

/** @param {Config} config @param {Fields} rule @returns {number[]} */
const crossAttentionLayers = (config, rule) => {
  if (!("cross_attention" in rule)) return []
  const stated = config.get(rule.cross_attention)
  return isTruthy(stated) ? stated : rule.default_list
}
