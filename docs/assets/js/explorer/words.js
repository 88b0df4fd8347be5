// What the explorer says: what each panel shows, and what is read off it.

import { short } from "../kit/plot.js"
import { pairOf, share } from "./model.js"
import { biased } from "./spec.js"

/** @import { State, View } from "./types.js" */

/** @type {Record<string, string>} */
export const NAMES = {
  sinusoidal: "Sinusoidal",
  learned: "Learned",
  rope: "RoPE",
  pope: "PoPE",
  alibi: "ALiBi",
  t5: "T5",
  kerple: "KERPLE",
  fire: "FIRE",
  none: "None",
  ntk: "NTK",
  dynamic_ntk: "dynamic NTK",
  by_parts: "by parts",
  yarn: "YaRN",
  llama3: "Llama 3",
  longrope: "LongRoPE",
  constant: "constant",
  tokens: "new at every position",
  random: "random",
  peak: "set by a peak",
  trained: "trained in chapter 2.2",
}

/** @param {State} s */
const vectors = (s) => {
  if (s.content === "random") return "one random query and one random key, the same everywhere"
  if (s.content === "tokens") return "a new random query and key at every position"
  if (s.content === "peak") return `one query everywhere, and as its key that query turned by ${s.peak}`
  if (s.encoding === "pope") return "one query and one key, all magnitudes 1"
  if (s.encoding === "none") return "one query and one key, all ones"
  return "one query and one key, whose pairs all start along their first channel"
}

/** What the similarity is computed of. @param {View} view */
export const meaning = ({ state: s }) => {
  const added = `The bias of head ${s.head}, added to the logit q · k / √d`
  /** @type {Record<string, () => string>} */
  const texts = {
    sinusoidal: () => "PE(m) · PE(n), two rows of the table. No learned weight has touched them.",
    learned: () =>
      s.table === "random"
        ? "P(m) · P(n), two rows of a table as it starts, before training."
        : "P(m) · P(n), two rows of the table that learned to read English in chapter 2.2.",
    rope: () => `q · k before 1/√d: ${vectors(s)}, turned to m and n.`,
    pope: () => `PoPE’s score before 1/√d: ${vectors(s)}, turned to m and n.`,
    alibi: () => `${added}: a slope times the distance. Nothing of the tokens is in it.`,
    t5: () => `${added}: a number for each bucket of distances, here drawn at random.`,
    kerple: () =>
      `${added}: ${s.form === "log" ? "−r1 ln(1 + r2 |m − n|)" : "−r1 |m − n|^r2"}. The other heads are as drawn.`,
    fire: () => `${added}: an untrained network of the distance, as a share of the reach.`,
    none: () => `q · k before 1/√d: ${vectors(s)}. Nobody moved them.`,
  }
  return texts[s.encoding]()
}

/** @param {View} view @returns {Array<[string, string]>} title and explanation of each panel */
export const captions = (view) => {
  const { state: s, plain, band } = view
  /** @type {Record<string, string>} */
  const patterns = {
    sinusoidal: "PE(p): a row for each position, a column for each channel.",
    learned: "The table: a row for each position, a column for each channel.",
    rope: "The query, turned to each position, channel by channel.",
    pope: "The query at each position: all its cosines, then all its sines.",
    none: "The query at each position. No position has entered.",
    fire: "Each head’s bias by distance, for the chosen query.",
  }
  const bias = biased(s)
  const gray = band ? " Gray: every distance." : ""
  const dashed = plain ? " Dashed: without scaling." : ""
  const red = "Its face is red where the pair adds to the product, blue where it takes."
  /** @type {[string, string]} */
  const fourth =
    bias || s.encoding === "none"
      ? ["Attention of equal tokens", `Softmax of that row${bias ? "" : " / √d"}: what the encoding alone would do.`]
      : view.pairs.length
        ? ["Clock hands", `Each pair at m and at n. ${red}`]
        : ["Two rows", "The rows of m and of n, channel by channel."]
  return [
    ["Pattern", patterns[s.encoding] ?? "Each head’s bias, by distance."],
    [bias ? "Bias of every pair" : "Similarity of every pair", meaning(view)],
    ["Response to distance", `The chosen query’s row, by distance m − n.${gray}${dashed}`],
    fourth,
  ]
}

/** @param {number} theta */
export const wavelength = (theta) => (theta ? (2 * Math.PI) / theta : Infinity)

/** @param {number} value */
const turns = (value) => (value === Infinity ? "never turns" : `wavelength ${short(value)}`)

/** What each panel reads at the chosen place. @param {View} view @returns {string[]} */
export const readings = (view) => {
  const { state: s, pattern } = view
  const { query: m, key: n, channel } = s
  const [p, q] = [m + s.first, n + s.first]
  const score = short(view.at(m, n))
  const bias = biased(s)
  const cell = bias ? m - n - pattern.from : channel
  const shown = pattern.values[(bias ? s.head : m) * pattern.columns + cell]
  const pair = pairOf(view, channel)
  const fourth =
    bias || s.encoding === "none"
      ? `m ${p}, n ${q}: weight ${short(view.weights(m)[n])}`
      : pair >= 0 && view.theta
        ? `pair ${pair}, ${turns(wavelength(view.theta[pair]))}: adds ${short(share(view, pair, m, n))}`
        : `channel ${channel}: ${short(shown)} and ${short(view.keyRow(n)[channel])}`
  return [
    bias ? `head ${s.head}, distance ${short(m - n)}: ${short(shown)}` : `p ${p}, channel ${channel}: ${short(shown)}`,
    `m ${p}, n ${q}: ${score}`,
    `distance ${short(m - n)}: ${score}`,
    fourth,
  ]
}

/** All of it in a sentence or two. @param {View} view */
export const reading = (view) => {
  const { state: s } = view
  const [first, , , fourth] = readings(view)
  const [m, n] = [s.query + s.first, s.key + s.first]
  const what = biased(s) ? "bias" : "similarity"
  const where = `Query at ${m}, key at ${n}, distance ${short(m - n)}: ${what} ${short(view.at(s.query, s.key))}.`
  const more = biased(s) ? `Attention of equal tokens: ${fourth}.` : `Position ${first.slice(2)}; ${fourth}.`
  return `${where} ${more}`
}

/** What a panel shows, for those who cannot see it. @param {View} view @param {number} panel */
export const label = (view, panel) => {
  const [title, text] = captions(view)[panel]
  const { pattern, state: s } = view
  const [low, high] = panel === 0 ? [pattern.low, pattern.high] : [view.low, view.high]
  const range = panel < 2 ? ` Colors from ${short(low)} to ${short(high)}.` : ""
  return `${NAMES[s.encoding]}, ${title}. ${text}${range} Chosen: ${readings(view)[panel]}.`
}
