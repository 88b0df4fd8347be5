// Of what kind each layer is. posenc.config.layer_types in another language.

import { truth } from "./model-types.js"

/** @typedef {import("./model-types.js").Config} Config */
/** @typedef {Record<string, any>} Words */

/** @type {Record<string, string>} */
const RENAMED = { attention: "full_attention", mamba: "linear_attention", recurrent: "linear_attention" }
const STILL = ["linear_attention", "conv", "moe", "mlp"] // words of layers without attention
/** @type {Record<string, string>} */
const WINDOWED = {
  sliding_attention: "sliding_window",
  hybrid_sliding: "sliding_window",
  reference_sliding_attention: "sliding_window",
  window_attention: "sliding_window",
  chunked_attention: "attention_chunk_size",
}

/** A word for each layer, those of layer_types where the configuration has them. @param {Config} config @returns {string[]} */
export const layerKinds = (config) => {
  const stated = config.get("layer_types")
  if (truth(stated)) {
    config.checkLayers("layer_types", stated.length)
    return stated.map((/** @type {string} */ word) => RENAMED[word] ?? String(word))
  }
  const count = config.number("num_hidden_layers")
  const rule = config.kind.layers ?? { all: "full_attention" }
  if (rule === "unknown")
    throw new Error(
      `plan: layer_types must be in a config of ${config.modelType}, got None; its code mixes layers in a way ` +
        "that posenc does not know",
    )
  return Array.from({ length: count }, (_, index) => wordOf(config, rule, index, count))
}

/** @param {Config} config @param {Words} rule @param {number} index @param {number} count @returns {string} */
const wordOf = (config, rule, index, count) => {
  if ("by_window" in rule) return byWindow(config, index)
  if ("map" in rule) {
    const stated = config.get(rule.map)
    return rule.to[truth(stated) ? oneEach(config, rule.map, stated)[index] : ""] ?? rule.other
  }
  if ("cycle" in rule) return rule.first[index] ?? rule.cycle[index % rule.cycle.length]
  if ("by_list" in rule) return listed(config, rule)[index] ? rule.word : rule.other
  return "each" in rule ? periodic(config, rule, index, count) : rule.all
}

/** One in so many is another, and maybe the first and last. @param {Config} config @param {Words} rule @param {number} index @param {number} count @returns {string} */
const periodic = (config, rule, index, count) => {
  const each = config.get(rule.key ?? "", rule.each) || 0
  if (each < 1) return rule.word
  const usual = each === rule.each ? rule.at : rule.at ? each - 1 : 0
  const at = config.get(rule.offset_key ?? "", usual)
  const place = rule.from_end ? count - 1 - index : index
  const special = rule.also?.includes(index) || (rule.last && index === count - 1)
  return place % each === at || special ? rule.word : rule.other
}

/** Qwen2's rule: layers from max_window_layers on see a window, if any. @param {Config} config @param {number} index */
const byWindow = (config, index) => {
  const windowed = config.get("use_sliding_window", true) && config.get("sliding_window")
  return windowed && index >= config.get("max_window_layers", 0) ? "sliding_attention" : "full_attention"
}

/** Whether a list of the configuration marks a layer, or has its number. @param {Config} config @param {Words} rule @returns {boolean[]} */
const listed = (config, rule) => {
  const marks = config.get(rule.by_list, rule.usual)
  const count = config.number("num_hidden_layers")
  const layers = Array.from({ length: count }, (_, index) => index)
  if (!truth(marks)) {
    const each = config.get(rule.key ?? "", rule.default ?? 0)
    return layers.map((index) => !each || (index + 1) % each !== 0)
  }
  if ("from" in rule) return layers.map((index) => marks.includes(index + rule.from))
  return oneEach(config, rule.by_list, marks).map(truth)
}

/** A list that has something for each layer. @template {{ length: number }} T @param {Config} config @param {string} name @param {T} stated @returns {T} */
export const oneEach = (config, name, stated) => {
  const count = config.number("num_hidden_layers")
  if (stated.length >= count) return stated
  throw new Error(`plan: ${name} must be ${count} marks, one a layer, got ${stated.length}`)
}

/** How many keys a query of such a layer sees, null for all. @param {Config} config @param {string} word */
export const windowOf = (config, word) => {
  const all = config.kind.window === "all" && word === "full_attention"
  const name = WINDOWED[word] ?? (all ? "sliding_window" : null)
  const found = name ? config.get(name) : null
  return Number.isInteger(found) && found > 0 ? found : null
}

/** For each layer why it does not turn, null where it does. @param {Config} config @param {string[]} words @returns {(string | null)[]} */
export const turning = (config, words) => {
  const rule = config.kind.nope ?? {}
  const marks = "by_list" in rule ? listed(config, rule) : words.map(() => true)
  const [flag, wanted] = rule.unless ?? []
  const off = flag && config.get(flag) !== wanted
  const still = truth(config.said[rule.unlisted]) ? [] : (rule.words ?? [])
  const across = "across" in rule ? crossing(config, rule) : []
  return words.map((word, index) => {
    if (STILL.includes(word)) return "no attention here"
    if (across.includes(index)) return "cross-attention, whose keys are of a picture"
    if (off) return `${flag} is not ${wanted === true ? "True" : wanted}`
    if (still.includes(word) && config.get(rule.if ?? "", true)) return `${word} of ${config.modelType} does not rotate`
    return marks[index] ? null : `0 in ${rule.by_list} means no RoPE`
  })
}

/** @param {Config} config @param {Words} rule @returns {number[]} */
const crossing = (config, rule) => {
  const stated = config.get(rule.across)
  return truth(stated) ? stated : rule.default
}
