// How position enters each layer of a model, by its configuration alone. posenc.config.plan in another language:
// a test holds both equal on the default configuration of every model type and on published ones.

import { unturned } from "./other-encodings.js"
import { recognized } from "./formats.js"
import { isDict, known, shown, truth } from "./model-types.js"
import { layerOf, planOf } from "./layer.js"
import { layerKinds, turning, windowOf } from "./layer-types.js"
import { head, queryScale, rotation, softmaxScale } from "./parts.js"
import { frequencies, LONGEST, ropeDict } from "./rotation.js"
import { refuseMisspelled, warnings } from "./warnings.js"

/** @typedef {import("./model-types.js").Config} Config */
/** @typedef {import("./layer.js").Layer} Layer */
/** @typedef {import("./layer.js").Plan} Plan */
/** @typedef {Record<string, any>} Words */

/** @param {Words} said what a config.json says @param {Record<string, Words>} kinds what codes know @param {number} [length] of the text, for dynamic and longrope scaling @returns {Plan} */
export const plan = (said, kinds, length = 1) => {
  if (isDict(said)) return planned(recognized(said), kinds, length, null)
  throw new Error(`plan: config must be a dict, got ${shown(said)}`)
}

/** @param {Words} said @param {Record<string, Words>} kinds @param {number} length @param {string | null} hint the model type of a part that names none @returns {Plan} */
const planned = (said, kinds, length, hint) => {
  const config = known(said, hint, kinds)
  if ("parts" in config.kind) return composite(config, kinds, length)
  return config.kind.encoding === "rope" ? turned(config, length) : unturned(config)
}

/** The plans of all parts; of a part that cannot be read, the reason as a warning. @param {Config} config @param {Record<string, Words>} kinds @param {number} length */
const composite = ({ said, kind, modelType: model_type }, kinds, length) => {
  /** @type {Record<string, Plan>} */
  const parts = {}
  const reasons = []
  for (const [name, inner] of Object.entries(kind.parts)) {
    const flat = !truth(said[name]) && name === kind.flat && "num_hidden_layers" in said
    const part = flat ? besideParts(said, kind.parts) : said[name]
    if (!isDict(part)) continue
    try {
      parts[name] = planned(part, kinds, length, inner)
    } catch (error) {
      reasons.push(`${name}: ${(error instanceof Error ? error.message : String(error)).replace(/^plan: /, "")}`)
    }
  }
  if (Object.keys(parts).length) return planOf({ model_type, parts, warnings: reasons })
  const why = reasons.join("; ") || `it has none of ${Object.keys(kind.parts).join(", ")}`
  throw new Error(`plan: config must be of parts that can be read, got ${model_type}; ${why}`)
}

/** What older files say of the text at the top. @param {Words} said @param {Words} parts @returns {Words} */
const besideParts = (said, parts) => {
  const own = Object.entries(said).filter(([name, value]) => name !== "model_type" && !(name in parts && isDict(value)))
  return Object.fromEntries(own)
}

/** @param {Config} config @param {number} length */
const turned = (config, length) => {
  refuseMisspelled(config)
  const words = layerKinds(config)
  const still = turning(config, words)
  const layers = words.map((word, index) => layer(config, index, word, still[index], length))
  const trained = config.get(LONGEST)
  return planOf({ model_type: config.modelType, layers, warnings: warnings(config, layers), trained })
}

/** @param {Config} config @param {number} index @param {string} word @param {string | null} reason @param {number} length @returns {Layer} */
const layer = (config, index, word, reason, length) => {
  const { width, part } = head(config, index, word)
  const rope = reason ? null : ropeDict(config, index, word)
  const found = layerOf({
    index,
    kind: word,
    head_dim: width,
    slice: [0, width],
    window: windowOf(config, word),
    query_scale: queryScale(config, rope),
    softmax_scale: softmaxScale(config, rope, width),
    why: reason ?? `${word} has no rotation in rope_parameters`,
  })
  return rope ? { ...found, ...turns(config, word, part, rope, length) } : found
}

/** What a layer that turns has more. @param {Config} config @param {string} word @param {[number, number]} part @param {Words} rope @param {number} length */
const turns = (config, word, part, rope, length) => {
  const { theta, factor, base, where } = frequencies(config, rope, word, part[1] - part[0], length)
  const sections = [rope.mrope_section, config.kind.sections].find(truth) ?? null
  const { encoding, part: given } = rotation(config, part, theta.length, sections)
  return {
    encoding,
    slice: given,
    layout: config.kind.layout,
    theta: theta.map((t) => (config.kind.sign ?? 1) * t),
    factor,
    base,
    sections,
    why: `${rope.rope_type ?? "default"} rotation, its base from ${where}`,
  }
}
