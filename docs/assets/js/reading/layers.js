// Of what kind each layer is. posenc.reading.layers in another language.

import { truth } from "./kinds.js"

/** @typedef {import("./kinds.js").Config} Config */
/** @typedef {Record<string, any>} Words */

/** @type {Record<string, string>} */
const RENAMED = { attention: "full_attention", mamba: "linear_attention", recurrent: "linear_attention" }
const STILL = ["linear_attention", "conv", "moe", "mlp"]
/** @type {Record<string, string>} */
const WINDOWED = {
  sliding_attention: "sliding_window",
  hybrid_sliding: "sliding_window",
  reference_sliding_attention: "sliding_window",
  window_attention: "sliding_window",
  chunked_attention: "attention_chunk_size",
}

/** @param {Config} config @returns {string[]} */
export const layerKinds = (config) => {
  const stated = config.get("layer_types")
  if (truth(stated)) {
    const words = stated.map((/** @type {string} */ word) => RENAMED[word] ?? word)
    return config.kind.longer ? words.slice(0, config.get("num_hidden_layers", words.length)) : words
  }
  const count = config.number("num_hidden_layers")
  const rule = config.kind.layers ?? { all: "full_attention" }
  return Array.from({ length: count }, (_, index) => wordOf(config, rule, index, count))
}

/** @param {Config} config @param {Words} rule @param {number} index @param {number} count @returns {string} */
const wordOf = (config, rule, index, count) => {
  if ("by_window" in rule) return byWindow(config, index)
  if ("by_list" in rule) return listed(config, rule)[index] === true ? rule.word : rule.other
  if (!("each" in rule)) return rule.all
  const each = config.get(rule.key ?? "", rule.each) || 0
  if (each < 1) return rule.word
  let at = each === rule.each ? rule.at : rule.at ? each - 1 : 0
  if ("offset_key" in rule) at = config.get(rule.offset_key, at)
  const place = rule.from_end ? count - 1 - index : index
  const first = (rule.also ?? []).includes(index)
  const last = rule.last && index === count - 1
  return place % each === at || first || last ? rule.word : rule.other
}

/** @param {Config} config @param {number} index */
const byWindow = (config, index) => {
  const windowed = truth(config.get("use_sliding_window", true)) && truth(config.get("sliding_window"))
  return windowed && index >= config.get("max_window_layers", 0) ? "sliding_attention" : "full_attention"
}

/** @param {Config} config @param {Words} rule @returns {boolean[]} */
const listed = (config, rule) => {
  const marks = config.get(rule.by_list)
  const count = config.number("num_hidden_layers")
  const each = config.get(rule.key ?? "", rule.default ?? 0)
  if (marks === null) return Array.from({ length: count }, (_, index) => !each || (index + 1) % each !== 0)
  if (rule.numbers) return Array.from({ length: count }, (_, index) => marks.includes(index))
  return marks.map(truth)
}

/** How many keys a query of such a layer sees, null for all. @param {Config} config @param {string} word */
export const windowOf = (config, word) => {
  let name = WINDOWED[word]
  if (!name && config.kind.window === "all" && word === "full_attention") name = "sliding_window"
  const found = name ? config.get(name) : null
  return Number.isInteger(found) && found > 0 ? found : null
}

/** For each layer why it does not turn, null where it does. @param {Config} config @param {string[]} words @returns {(string | null)[]} */
export const turning = (config, words) => {
  const rule = config.kind.nope ?? {}
  const marks = "by_list" in rule ? listed(config, rule) : words.map(() => true)
  const [flag, wanted] = rule.unless ?? [null, null]
  const off = flag !== null && config.get(flag) !== wanted
  return words.map((word, index) => {
    if (STILL.includes(word)) return "no attention here"
    if (off) return `${flag} is not ${wanted}`
    if ((rule.words ?? []).includes(word) && truth(config.get(rule.if ?? "", true)))
      return `${word} of ${config.modelType} does not rotate`
    return marks[index] === true ? null : `0 in ${rule.by_list} means no RoPE`
  })
}
