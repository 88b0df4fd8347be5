// How position enters each layer of a model, by its configuration alone. posenc.config.plan in another language:
// a test holds both equal on the default configuration of every model type and on published ones.

import { planWithoutRotation } from "./other-encodings.js"
import { recognized } from "./formats.js"
import { resolve } from "./model-types.js"
import { filled, isDict, isTruthy, repr } from "./rules.js"
import { layerOf, planOf } from "./layer.js"
import { layerTypesOf, unrotatedReasons, windowOf } from "./layer-types.js"
import { headChannels, queryScale, rotation, softmaxScale } from "./parts.js"
import { frequencies, LONGEST, ropeDict } from "./rotation.js"
import { collectWarnings, refuseMisspelled } from "./warnings.js"

/** @import { Layer, Plan } from "./layer.js" */
/** @import { Config } from "./model-types.js" */
/** @import { Fields, Rules } from "./rules.js" */

/** @param {Fields} config a config.json @param {Rules} rules
 * @param {number} [length] of the text, for dynamic and longrope scaling @returns {Plan} */
export const plan = (config, rules, length = 1) => {
  if (isDict(config)) return planOfModel(recognized(config, rules), rules, length, null)
  throw new Error(`plan: config must be a dict, got ${repr(config)}`)
}

/** The plan of one model, or of a model that is a part of another.
 * @param {Fields} fields @param {Rules} rules @param {number} length
 * @param {string | null} defaultType the model type of a part that names none @returns {Plan} */
const planOfModel = (fields, rules, length, defaultType) => {
  const config = resolve(fields, defaultType, rules)
  if ("parts" in config.facts) return composite(config, length)
  return config.facts.encoding === "rope" ? planWithRotation(config, length) : planWithoutRotation(config)
}

/** The plans of all parts; of a part that cannot be read, the reason as a warning.
 * @param {Config} config @param {number} length */
const composite = (config, length) => {
  const { modelType: model_type, facts, rules } = config
  /** @type {Record<string, Plan>} */
  const parts = {}
  const reasons = []
  for (const [name, modelType] of Object.entries(facts.parts)) {
    const fields = partFields(config, name)
    if (!isDict(fields)) continue
    try {
      parts[name] = planOfModel(fields, rules, length, modelType)
    } catch (error) {
      reasons.push(`${name}: ${(error instanceof Error ? error.message : String(error)).replace(/^plan: /, "")}`)
    }
  }
  if (Object.keys(parts).length) return planOf({ model_type, parts, warnings: reasons })
  const { NO_PARTS, UNREAD_PARTS } = rules.sentences
  const why = reasons.join("; ") || filled(NO_PARTS, { parts: Object.keys(facts.parts).join(", ") })
  throw new Error(filled(UNREAD_PARTS, { model_type, why }))
}

/** What a configuration says of one part; in older files that of the text stands at the top.
 * @type {(config: Config, name: string) => any} */
const partFields = ({ fields, facts }, name) => {
  const isAtTop = name === facts.part_at_top && "num_hidden_layers" in fields
  if (isTruthy(fields[name]) || !isAtTop) return fields[name]
  const isStated = (/** @type {string} */ key) => key in facts.parts && isDict(fields[key])
  return Object.fromEntries(Object.entries(fields).filter(([key]) => key !== "model_type" && !isStated(key)))
}

/** @param {Config} config @param {number} length */
const planWithRotation = (config, length) => {
  refuseMisspelled(config)
  const layerTypes = layerTypesOf(config)
  const reasons = unrotatedReasons(config, layerTypes)
  const layers = layerTypes.map((layerType, index) => layerAt(config, index, layerType, reasons[index], length))
  const trained = config.get(LONGEST)
  return planOf({ model_type: config.modelType, layers, warnings: collectWarnings(config, layers), trained })
}

/** One layer, which does not rotate where there is a reason.
 * @type {(config: Config, index: number, layerType: string, reason: string | null, length: number) => Layer} */
const layerAt = (config, index, layerType, reason, length) => {
  const { width, part } = headChannels(config, index, layerType)
  const rope = reason ? null : ropeDict(config, index, layerType)
  const layer = layerOf({
    index,
    layer_type: layerType,
    head_dim: width,
    slice: [0, width],
    window: windowOf(config, layerType),
    query_scale: queryScale(config, rope),
    softmax_scale: softmaxScale(config, rope, width),
    why: reason ?? filled(config.rules.sentences.NO_ROPE_DICT, { layer_type: layerType }),
  })
  return rope ? rotatedLayer(config, layer, part, rope, length) : layer
}

/** A layer with the rotation of its rope dict, of the channels `part`.
 * @type {(config: Config, layer: Layer, part: [number, number], rope: Fields, length: number) => Layer} */
const rotatedLayer = (config, layer, part, rope, length) => {
  const width = part[1] - part[0]
  const { theta, attentionFactor, base, source } = frequencies(config, rope, layer.layer_type, width, length)
  const sections = [rope.mrope_section, config.facts.sections].find(isTruthy) ?? null
  const { encoding, part: slice } = rotation(config, part, theta.length, sections)
  return {
    ...layer,
    encoding,
    slice,
    layout: config.facts.layout,
    theta: theta.map((t) => (config.facts.sign ?? 1) * t),
    attention_factor: attentionFactor,
    base,
    sections,
    why: filled(config.rules.sentences.ROTATES, { rope_type: rope.rope_type ?? "default", source }),
  }
}
