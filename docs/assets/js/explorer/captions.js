// What the explorer says: what each panel shows, and what is read off it.

import { short } from "../kit/plot.js"
import { biased, channeled, isLogit, kindOf } from "./kinds.js"
import { meaning, patternText, slopeOf } from "./labels.js"
import { pairOf, share } from "./model.js"
import { weighs } from "./panels/steps.js"
import { firstOf, wordAt } from "./defaults.js"

/** @import { State, View } from "./types.js" */

/** @param {State} s */
const scored = (s) => (s.softmax ? "Attention" : biased(s) ? "Bias" : isLogit(s) ? "Logit" : "Similarity")

/** @param {View} view @returns {[string, string]} */
const lastCaption = (view) => {
  const { state: s } = view
  const alone = "what the encoding alone gives"
  if (view.pairs.length)
    return [
      "Pairs of channels",
      "Each pair as a vector in the plane, rotated to m and to n: red where it adds to the product, blue where it subtracts.",
    ]
  if (!weighs(view)) return ["Rows of m and n", "Channel by channel."]
  if (kindOf(s).door === "score") return ["Attention weights from this alone", `Softmax of that row: ${alone}.`]
  return ["Attention weights of equal tokens", `Softmax of that row${biased(s) ? "" : " / √d"}: ${alone}.`]
}

/** @param {View} view @param {View | null} other @returns {[string, string]} */
const responseCaption = (view, other) => {
  const { state: s, plain, band, curve } = view
  if (kindOf(s).grid && !other)
    return [
      "What this patch attends to",
      "The chosen query’s row, laid out as the picture: the patches of query and key are framed.",
    ]
  const usual = s.encoding === "lerope" ? "as it started" : "without scaling"
  const dashed = plain ? ` Dashed: ${usual}.` : ""
  if (s.far && curve)
    return [
      "Response to the offset",
      `The ${isLogit(s) ? "bias" : "dot product"} at every offset up to ${short(view.far)}, on a logarithmic axis.${dashed}`,
    ]
  const gray = band ? " Gray: all pairs at each offset." : ""
  return ["Response to the offset", `The chosen query’s row, by offset m − n.${gray}${dashed}`]
}

/** @param {View} view @param {View | null} [other] beside it
 * @returns {Array<[string, string]>} title and explanation of each panel */
export const captions = (view, other = null) => [
  ["Pattern", patternText(view)],
  [`${scored(view.state)} of every pair`, meaning(view)],
  responseCaption(view, other),
  lastCaption(view),
]

/** @param {number} theta */
export const wavelength = (theta) => (theta ? (2 * Math.PI) / theta : Infinity)

/** @param {number} value */
const turns = (value) => (value === Infinity ? "frequency 0" : `wavelength ${short(value)}`)

/** A pair's two places. @param {State} s */
const placed = (s) =>
  s.words ? `“${wordAt(s, s.query)}” to “${wordAt(s, s.key)}”` : `m ${wordAt(s, s.query)}, n ${wordAt(s, s.key)}`

/** @param {View} view */
const ofPattern = ({ state: s, pattern }) => {
  const { query: m, key: n, channel } = s
  if (pattern.reads) {
    const [row, column] = pattern.reads(m, n)
    const start = pattern.start ?? 0
    const at = Math.min(pattern.rows - 1, Math.round(row ?? 0)) * pattern.columns + (column ?? channel)
    const named = row === null || pattern.rows === 1 ? "" : `, row ${short(row + start)}`
    return `${placed(s)}${named}, column ${short((column ?? channel) + pattern.from)}: ${short(pattern.values[at])}`
  }
  const cell = biased(s) ? m - n - pattern.from : channel
  const value = short(pattern.values[(biased(s) ? s.head : m) * pattern.columns + cell])
  const slope = s.encoding === "alibi" ? `, slope ${slopeOf(s)}` : ""
  if (biased(s)) return `head ${s.head}${slope}, offset ${short(m - n)}: ${value}`
  return s.words ? `“${wordAt(s, m)}”, channel ${channel}: ${value}` : `p ${wordAt(s, m)}, channel ${channel}: ${value}`
}

/** @param {View} view */
const ofLast = (view) => {
  const { state: s } = view
  const { query: m, key: n, channel } = s
  if (weighs(view)) return `${placed(s)}: weight ${short(view.weights(m)[n])}`
  const pair = pairOf(view, channel)
  if (pair >= 0 && view.theta)
    return `pair ${pair}, ${turns(wavelength(view.theta[pair]))}: adds ${short(share(view, pair, m, n))}`
  return `channel ${channel}: ${short(view.queryRow(m)[channel])} and ${short(view.keyRow(n)[channel])}`
}

/** What each panel reads at the chosen place. @param {View} view @returns {string[]} */
export const readings = (view) => {
  const { state: s } = view
  const [m, n] = [s.query, s.key]
  const score = short(view.at(m, n))
  const apart = kindOf(s).grid ? apartOf(s) : `offset ${short(m - n)}`
  return [ofPattern(view), `${placed(s)}: ${score}`, `${apart}: ${score}`, ofLast(view)]
}

/** Two patches by rows and columns. @param {State} s */
const apartOf = ({ query: m, key: n, side }) =>
  `${short(Math.floor(m / side) - Math.floor(n / side))} rows, ${short((m % side) - (n % side))} columns`

/** How far one word is from another, in words. @param {number} distance */
const away = (distance) => {
  if (!distance) return "itself"
  const many = Math.abs(distance)
  return `${many} token${many > 1 ? "s" : ""} ${distance > 0 ? "before" : "after"} it`
}

/** All of it in a sentence or two, for a reader of words. @param {View} view */
const inWords = (view) => {
  const { state: s } = view
  const [m, n] = [s.query, s.key]
  const [word, other] = [wordAt(s, m), wordAt(s, n)].map((word) => `“${word}”`)
  const value = short(view.at(m, n))
  if (s.softmax) return `Query ${word}, key ${other}, ${away(m - n)}: attention weight ${percent(view.at(m, n))}.`
  if (kindOf(s).door === "add")
    return `Query ${word}, key ${other}, ${away(m - n)}: their encodings have similarity ${value}; an encoding with itself has ${short(view.at(m, m))}.`
  const what = `Query ${word}, key ${other}, ${away(m - n)}: ${scored(s).toLowerCase()} ${value}.`
  return `${what} From the encoding alone ${other} gets the attention weight ${percent(view.weights(m)[n])}.`
}

/** @param {number} part */
const percent = (part) => `${short(100 * part, 2)}%`

/** All of it in a sentence or two. @param {View} view */
export const reading = (view) => {
  const { state: s } = view
  if (s.words) return inWords(view)
  const [first, , , fourth] = readings(view)
  const [m, n] = [s.query + firstOf(s), s.key + firstOf(s)]
  const where = `Query at ${m}, key at ${n}, ${kindOf(s).grid ? apartOf(s) : `offset ${short(s.query - s.key)}`}`
  const sentence = `${where}: ${scored(s).toLowerCase()} ${short(view.at(s.query, s.key))}.`
  if (!channeled(s) || isLogit(s)) return `${sentence} Attention weight from this alone: ${fourth}.`
  return `${sentence} Position ${first.slice(2)}; ${fourth}.`
}

/** What a panel shows, for those who cannot see it.
 * @type {(view: View, panel: number, other?: View | null) => string} */
export const label = (view, panel, other = null) => {
  const [title, text] = captions(view, other)[panel]
  const { pattern, state: s } = view
  const [low, high] = panel === 0 ? [pattern.low, pattern.high] : [view.low, view.high]
  const range = panel < 2 ? ` Colors from ${short(low)} to ${short(high)}.` : ""
  const channel = channeled(s) ? `, channel ${s.channel}` : ""
  const beside = other && panel === 2 ? ` Beside it: ${kindOf(other.state).name}, ${readings(other)[2]}.` : ""
  return `${kindOf(s).name}, ${title}. ${text}${range} Chosen: ${readings(view)[panel]}; ${placed(s)}${channel}.${beside}`
}
