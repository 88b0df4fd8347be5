// Models that do not rotate. posenc.config.other_encodings in another language.

import { whole } from "./model-types.js"
import { layerOf, planOf } from "./layer.js"
import { layerKinds, turning, windowOf } from "./layer-types.js"
import { grid, scaled, softmaxScale } from "./parts.js"
import { baseOf, ropeDict } from "./rotation.js"

/** @typedef {import("./model-types.js").Config} Config */
/** @typedef {import("./layer.js").Layer} Layer */
/** @typedef {import("./layer.js").Plan} Plan */

/** The plan of a model without rotation. @param {Config} config @returns {Plan} */
export const unturned = (config) => {
  const { encoding, why = "its code is none of text" } = config.kind
  if (Object.hasOwn(READERS, encoding)) return READERS[encoding](config)
  throw new Error(`plan: model_type must be one whose positions posenc reads, got ${config.modelType}; ${why}`)
}

/** @param {Config} config @param {string | null} encoding @param {string} why */
const layersOf = (config, encoding, why) => {
  const words = layerKinds(config)
  const width = config.get("head_dim") || Math.floor(config.number(config.kind.width ?? "hidden_size") / heads(config))
  return words.map((word, index) =>
    layerOf({
      index,
      kind: word,
      encoding,
      head_dim: width,
      slice: [0, width],
      window: windowOf(config, word),
      softmax_scale: softmaxScale(config, null, width),
      why,
    }),
  )
}

/** A state has no heads. @param {Config} config */
const heads = (config) => {
  const one = config.kind.encoding === "none" && config.get("num_attention_heads") === null
  return one ? 1 : config.number("num_attention_heads")
}

/** @param {Config} config @param {Partial<Plan>} found */
const made = (config, found) => planOf({ model_type: config.modelType, trained: trained(config), ...found })

/** @param {Config} config @returns {number | null} */
const trained = (config) => config.get("max_position_embeddings")

/** A layer of a tower for pictures, whose patches stand at rows and columns. @param {Config} config @param {Layer} layer @returns {Layer} */
const onGrid = (config, layer) => {
  const { layout } = config.kind
  const rope = ropeDict(config, layer.index, layer.kind)
  if (!rope) return { ...layer, why: "rope_theta is 0: it does not rotate" }
  const [base, where] = baseOf(config, rope, layer.kind)
  const why = `rotation by rows and columns, its base from ${where}`
  return { ...layer, encoding: "Axial", layout, theta: grid(config.kind.grid, layer.head_dim, base), base, why }
}

/** A layer of Inkling; one with a window has heads of its own and no scale of queries. @param {Config} config @param {Layer} layer @returns {Layer} */
const mixed = (config, layer) => {
  const swa = layer.window ? "swa_" : ""
  config.number(`${swa}num_attention_heads`)
  const width = config.number(`${swa}head_dim`)
  const rank = config.number("d_rel")
  const extent = layer.window ?? config.number("rel_extent")
  const floor = swa ? null : config.get("log_scaling_n_floor")
  return {
    ...layer,
    encoding: "Profiles",
    head_dim: width,
    slice: [0, width],
    softmax_scale: softmaxScale(config, null, width),
    query_scale: floor ? scaled("inkling", floor, config.get("log_scaling_alpha")) : null,
    why: `each query mixes ${rank} curves over ${whole(extent)} tokens`,
  }
}

/** Both sides of the encoder share the buckets. @param {Config} config */
const checkBuckets = (config) => {
  const buckets = config.get("relative_attention_num_buckets")
  const longest = config.get("relative_attention_max_distance")
  const exact = [4, 2].map((parts) => Math.floor(buckets / parts))
  if (exact[0] < 1 || buckets % 2)
    throw new Error(`t5: buckets must be 2 or more a side, and even for two, got ${buckets}`)
  const least = exact.find((n) => !(longest > n && longest <= 2 ** 53))
  if (least !== undefined)
    throw new Error(`t5: max_distance must be more than ${least} and at most 2**53, got ${longest}`)
}

/** @type {Record<string, (config: Config) => Plan>} */
const READERS = {
  axial: (config) => {
    const still = turning(config, layerKinds(config))
    const layers = layersOf(config, null, "no attention here")
    return made(config, { layers: layers.map((one, n) => (still[n] ? one : onGrid(config, one))), trained: null })
  },
  profiles: (config) => made(config, { layers: layersOf(config, null, "").map((one) => mixed(config, one)) }),
  alibi: (config) => {
    config.number("num_attention_heads")
    return made(config, { layers: layersOf(config, "ALiBi", "a slope a head") })
  },
  t5: (config) => {
    const model_type = config.modelType
    const why = config.kind.each ? "a table of biases of its own" : "one table of biases for all layers"
    const names = ["encoder", "decoder"]
    config.number("num_attention_heads")
    checkBuckets(config)
    const layers = layersOf(config, "T5", why)
    const parts = names.map((name) => [name, planOf({ model_type: `${model_type} ${name}`, layers })])
    return planOf({ model_type, parts: Object.fromEntries(parts) })
  },
  learned: (config) => {
    const stated = config.number("max_position_embeddings")
    const rows = stated - (config.kind.within ? (config.kind.offset ?? 0) : 0)
    const width = config.get(config.kind.width ?? "embedding_size") || config.get("input_embedding_size")
    if (!width) config.number("hidden_size")
    const layers = layersOf(config, null, "learned rows are added to the embeddings")
    return made(config, { layers, added: "Learned", trained: rows })
  },
  none: (config) => {
    const why = config.kind.why ?? "no position but by the causal mask"
    return made(config, { layers: layersOf(config, null, why) })
  },
}
