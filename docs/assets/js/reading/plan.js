// How position enters each layer of a model, by its configuration alone. posenc.reading in another language:
// a test holds both equal on the default configuration of every model type and on published ones.

import { Config, isDict, shown, truth } from "./kinds.js"
import { layerKinds, turning, windowOf } from "./layers.js"
import { head, queryScale, rotation, softmaxScale } from "./parts.js"
import { frequencies, ropeDict } from "./rotation.js"
import { warnings } from "./warn.js"

/** @typedef {Record<string, any>} Words */
/** @typedef {{ index: number, kind: string, encoding: string | null, head_dim: number, slice: [number, number], layout: string | null, theta: number[] | null, factor: number, base: number | null, window: number | null, sections: number[] | null, query_scale: Words | null, softmax_scale: number, why: string }} Layer */
/** @typedef {{ model_type: string, trained: number | null, added: string | null, layers: Layer[], parts: Record<string, Plan>, warnings: string[] }} Plan */

/** @param {Words} said what a config.json says @param {Record<string, Words>} kinds what codes know @param {string | null} [hint] @param {number | null} [length] @returns {Plan} */
export const plan = (said, kinds, hint = null, length = null) => {
  if (!isDict(said)) throw new Error(`plan: config must be a dict, got ${shown(said)}`)
  const modelType = said.model_type || hint
  if (!(modelType in kinds))
    throw new Error(`plan: model_type must be one that transformers knows, got ${shown(modelType)}`)
  const config = new Config(said, modelType, kinds[modelType])
  const { switch: other } = config.kind
  if (other && config.get(other.key) === other.value) config.kind = { ...config.kind, ...other.to }
  if ("parts" in config.kind) return composite(config, kinds, length)
  return config.kind.encoding === "rope" ? turned(config, length) : unturned(config)
}

/** @param {Partial<Plan> & { model_type: string }} found @returns {Plan} */
const made = (found) => ({ trained: null, added: null, layers: [], parts: {}, warnings: [], ...found })

/** @param {Config} config @param {Record<string, Words>} kinds @param {number | null} length */
const composite = (config, kinds, length) => {
  const { said, kind, modelType: model_type } = config
  /** @type {Record<string, Plan>} */
  const parts = {}
  const reasons = []
  const stated = new Set(["model_type", ...Object.keys(kind.parts).filter((name) => isDict(said[name]))])
  for (const [name, inner] of Object.entries(kind.parts)) {
    let part = said[name]
    if (!truth(part) && name === kind.flat && "num_hidden_layers" in said)
      part = Object.fromEntries(Object.entries(said).filter(([key]) => !stated.has(key)))
    if (!isDict(part)) continue
    try {
      parts[name] = plan(part, kinds, inner, length)
    } catch (error) {
      reasons.push(`${name}: ${(error instanceof Error ? error.message : String(error)).replace(/^plan: /, "")}`)
    }
  }
  if (!Object.keys(parts).length)
    throw new Error(
      `plan: config must be of parts that can be read, got ${model_type}; ` +
        (reasons.join("; ") || `it has none of ${Object.keys(kind.parts).join(", ")}`),
    )
  return made({ model_type, parts, warnings: reasons })
}

/** @param {Config} config @param {number | null} length */
const turned = (config, length) => {
  const words = layerKinds(config)
  const still = turning(config, words)
  const layers = words.map((word, index) => layer(config, index, word, still[index], length))
  const trained = config.get("max_position_embeddings")
  return made({ model_type: config.modelType, layers, warnings: warnings(config, layers), trained })
}

/** @param {Config} config @param {number} index @param {string} word @param {string | null} reason @param {number | null} length @returns {Layer} */
const layer = (config, index, word, reason, length) => {
  const { width, part } = head(config, index, word)
  const rope = reason ? null : ropeDict(config, index, word)
  const rest = {
    index,
    kind: word,
    head_dim: width,
    window: windowOf(config, word),
    query_scale: queryScale(config, rope),
    softmax_scale: softmaxScale(config, rope, width),
  }
  if (!rope)
    return { ...STILL, ...rest, slice: [0, width], why: reason ?? `${word} has no rotation in rope_parameters` }
  const { theta, factor, base, where } = frequencies(config, rope, part[1] - part[0], length)
  const stated = truth(rope.mrope_section) ? rope.mrope_section : (config.kind.sections ?? null)
  const { encoding, part: given } = rotation(config, part, theta.length, stated)
  return {
    ...rest,
    encoding,
    slice: given,
    layout: config.kind.layout,
    theta: theta.map((t) => (config.kind.sign ?? 1) * t),
    factor,
    base,
    sections: stated,
    why: `${rope.rope_type ?? "default"} rotation, base of ${where}`,
  }
}

const STILL = { encoding: null, layout: null, theta: null, factor: 1, base: null, sections: null }

/** @type {Record<string, (config: Config) => Plan>} */
const DOORS = {
  alibi: (config) => {
    config.number("num_attention_heads")
    return beside(config, "ALiBi", "a slope a head")
  },
  t5: (config) => {
    const why = "one table of biases for all layers"
    const parts = Object.fromEntries(
      ["encoder", "decoder"].map((name) => {
        const { layers } = beside(config, "T5", why)
        return [name, made({ model_type: `${config.modelType} ${name}`, layers })]
      }),
    )
    return made({ model_type: config.modelType, parts })
  },
  learned: (config) => {
    const trained = config.number("max_position_embeddings")
    const found = beside(config, null, "learned rows are added to the embeddings")
    return { ...found, added: "Learned", trained }
  },
  sinusoidal: (config) => ({
    ...beside(config, null, "sines and cosines are added to the embeddings"),
    added: "Sinusoidal",
  }),
  none: (config) => beside(config, null, config.kind.why ?? "no position but by the causal mask"),
}

/** A model without rotation. @param {Config} config @returns {Plan} */
const unturned = (config) => {
  const read = DOORS[config.kind.encoding]
  if (read) return read(config)
  const why = config.kind.why ?? "its code is none of text"
  throw new Error(`plan: model_type must be one whose positions posenc reads, got ${config.modelType}; ${why}`)
}

/** @param {Config} config @param {string | null} encoding @param {string} why */
const beside = (config, encoding, why) => {
  const words = layerKinds(config)
  const width =
    config.get("head_dim") || Math.floor(config.number("hidden_size") / config.number("num_attention_heads"))
  const layers = words.map((word, index) => ({
    ...STILL,
    index,
    kind: word,
    encoding,
    head_dim: width,
    slice: /** @type {[number, number]} */ ([0, width]),
    window: windowOf(config, word),
    query_scale: null,
    softmax_scale: softmaxScale(config, null, width),
    why,
  }))
  return made({ model_type: config.modelType, layers, trained: config.get("max_position_embeddings") })
}
