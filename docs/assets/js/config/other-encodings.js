// Models that do not rotate by one place. posenc.config.other_encodings in another language.

import { filled } from "./rules.js"
import { layerOf, planOf } from "./layer.js"
import { layerTypesOf, unrotatedReasons, windowOf } from "./layer-types.js"
import { gridFrequencies, scaleOf, softmaxScale } from "./parts.js"
import { baseOf, ropeDict } from "./rotation.js"

/** @import { Layer, Plan } from "./layer.js" */
/** @import { Config } from "./model-types.js" */

/** The plan of a model without rotation, or with one by rows and columns. @param {Config} config @returns {Plan} */
export const planWithoutRotation = (config) => {
  const { sentences } = config.rules
  const { encoding, why = sentences.NOT_OF_TEXT } = config.facts
  if (Object.hasOwn(READERS, encoding)) return READERS[encoding](config)
  throw new Error(filled(sentences.UNREAD_POSITIONS, { model_type: config.modelType, why }))
}

/** The layers of a model, all with the same encoding.
 * @param {Config} config @param {string | null} encoding @param {string} why */
const layersOf = (config, encoding, why) => {
  const layerTypes = layerTypesOf(config)
  const width = config.get("head_dim") || headDim(config)
  return layerTypes.map((layerType, index) =>
    layerOf({
      index,
      layer_type: layerType,
      encoding,
      head_dim: width,
      slice: [0, width],
      window: windowOf(config, layerType),
      softmax_scale: softmaxScale(config, null, width),
      why,
    }),
  )
}

/** A state, such as Mamba's, has no heads. @param {Config} config */
const headDim = (config) => {
  const isState = config.facts.encoding === "none" && config.get("num_attention_heads") === null
  const heads = isState ? 1 : config.number("num_attention_heads")
  return Math.floor(config.number(config.facts.width_key ?? "hidden_size") / heads)
}

/** @param {Config} config @param {Partial<Plan>} fields */
const planOfLayers = (config, fields) =>
  planOf({ model_type: config.modelType, trained: config.get("max_position_embeddings"), ...fields })

/** A layer with the rotation by rows and columns that is its own. @type {(config: Config, layer: Layer) => Layer} */
const onGrid = (config, layer) => {
  const { layout } = config.facts
  const { sentences } = config.rules
  const rope = ropeDict(config, layer.index, layer.layer_type)
  if (!rope) return { ...layer, why: sentences.BASE_OF_ZERO }
  const [base, source] = baseOf(config, rope, layer.layer_type)
  const theta = gridFrequencies(config, layer.head_dim, base)
  const why = filled(sentences.ROTATES_ON_GRID, { source })
  return { ...layer, encoding: "Axial", layout, theta, base, why }
}

/** A layer of Inkling; one with a window has heads of its own and no scale of queries.
 * @type {(config: Config, layer: Layer) => Layer} */
const withProfiles = (config, layer) => {
  const prefix = layer.window ? "swa_" : ""
  config.number(`${prefix}num_attention_heads`)
  const width = config.number(`${prefix}head_dim`)
  const rank = config.number("d_rel")
  const extent = layer.window ?? config.number("rel_extent")
  const floor = layer.window ? null : config.get("log_scaling_n_floor")
  return {
    ...layer,
    encoding: "Profiles",
    head_dim: width,
    slice: [0, width],
    softmax_scale: softmaxScale(config, null, width),
    query_scale: floor ? scaleOf("inkling", floor, config.get("log_scaling_alpha")) : null,
    why: filled(config.rules.sentences.CURVES, { rank, extent }),
  }
}

/** Both sides of the encoder share the buckets. @param {Config} config */
const checkBuckets = (config) => {
  const buckets = config.get("relative_attention_num_buckets")
  const longest = config.get("relative_attention_max_distance")
  const exact = [4, 2].map((parts) => Math.floor(buckets / parts))
  if (exact[0] < 1 || buckets % 2)
    throw new Error(`t5: buckets must be 2 or more a side, and even if bidirectional, got ${buckets}`)
  const least = exact.find((n) => !(longest > n && longest <= 2 ** 53))
  if (least !== undefined)
    throw new Error(`t5: max_distance must be more than ${least} and at most 2**53, got ${longest}`)
}

/** @type {Record<string, (config: Config) => Plan>} */
const READERS = {
  axial: (config) => {
    const layers = layersOf(config, null, "")
    const layerTypes = layers.map(({ layer_type }) => layer_type)
    const reasons = unrotatedReasons(config, layerTypes)
    const rotated = layers.map((layer, n) => (reasons[n] ? { ...layer, why: reasons[n] } : onGrid(config, layer)))
    return planOfLayers(config, { layers: rotated, trained: null })
  },
  profiles: (config) =>
    planOfLayers(config, { layers: layersOf(config, null, "").map((layer) => withProfiles(config, layer)) }),
  alibi: (config) => {
    config.number("num_attention_heads")
    return planOfLayers(config, { layers: layersOf(config, "ALiBi", config.rules.sentences.SLOPES) })
  },
  t5: (config) => {
    const model_type = config.modelType
    const { OWN_TABLE, SHARED_TABLE } = config.rules.sentences
    const why = config.facts.table_per_layer ? OWN_TABLE : SHARED_TABLE
    config.number("num_attention_heads")
    checkBuckets(config)
    const layers = layersOf(config, "T5", why)
    const parts = ["encoder", "decoder"].map((name) => [name, planOf({ model_type: `${model_type} ${name}`, layers })])
    return planOf({ model_type, parts: Object.fromEntries(parts) })
  },
  learned: (config) => {
    const stated = config.number("max_position_embeddings")
    const rows = stated - (config.facts.rows_include_offset ? (config.facts.offset ?? 0) : 0)
    const width = config.get(config.facts.width_key ?? "embedding_size") || config.get("input_embedding_size")
    if (!width) config.number("hidden_size")
    const layers = layersOf(config, null, config.rules.sentences.LEARNED_ROWS)
    return planOfLayers(config, { layers, added: "Learned", trained: rows })
  },
  none: (config) => {
    const why = config.facts.why ?? config.rules.sentences.NOTHING
    return planOfLayers(config, { layers: layersOf(config, null, why) })
  },
}
