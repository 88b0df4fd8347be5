// What the similarity is computed of, for each encoding; what each choice is called.

import { short } from "../kit/plot.js"
import { alibiSlopes } from "../math/biases.js"
import { biased, kindOf } from "./kinds.js"

/** @import { State, View } from "./types.js" */

/** @type {Record<string, string>} */
export const NAMES = {
  none: "none",
  ntk: "NTK",
  dynamic_ntk: "dynamic NTK",
  by_parts: "by parts",
  yarn: "YaRN",
  llama3: "Llama 3",
  longrope: "LongRoPE",
  constant: "alike",
  tokens: "one for each token",
  random: "random",
  peak: "set by a peak",
  trained: "trained in chapter 2.2",
  half: "half layout",
  interleaved: "interleaved",
  powers: "doubled",
  bands: "even",
  gaussian: "drawn",
}

/** @param {State} s */
const vectors = (s) => {
  if (s.content === "random") return "one random query and one random key, the same everywhere"
  if (s.content === "tokens") return "a random query and key for each token"
  if (s.content === "peak") return `one query everywhere, and as its key that query rotated by ${s.peak}`
  if (s.encoding === "pope") return "one query and one key, all magnitudes 1"
  if (kindOf(s).door === "rotate" && s.encoding !== "liere")
    return "one query and one key, whose pairs all start along their first channel"
  return "one query and one key, all ones"
}

const SEEDED = "Tables are as drawn from the seed, before any training."
/** @param {State} s */
const added = (s) => `The bias of head ${s.head}, added to the logit q · k / √d`
const score = "Added to the logit q · k / √d:"

/** @type {Record<string, (s: State) => string>} */
const TEXTS = {
  sinusoidal: () => "PE(m) · PE(n), two rows of the table. No learned weight has touched them.",
  learned: (s) =>
    s.table === "random"
      ? "P(m) · P(n), two rows of a table as it starts, before training."
      : "P(m) · P(n), two rows of the table that learned to read English in chapter 2.2.",
  fourier: () => "The product of two rows; positions run from 0 to 1.",
  grid: () => "The product of two patches’ encodings: it depends on the offset in rows and in columns.",
  convolution: (s) =>
    `What an untrained filter adds to two tokens, multiplied: ${vectors(s)}. Only the borders differ for equal tokens.`,
  conditional: (s) =>
    `What an untrained filter adds to two patches, multiplied: ${vectors(s)}. Zeros outside the picture tell its edges.`,
  rope: (s) => `q · k before 1/√d: ${vectors(s)}, rotated to m and n.`,
  xpos: (s) => `q · k before 1/√d: ${vectors(s)}, rotated, and decayed by their distance. It grows for keys ahead.`,
  pope: (s) => `PoPE’s logit before 1/√d: ${vectors(s)}, rotated to m and n.`,
  axial: (s) => `q · k before 1/√d: ${vectors(s)}, half of the pairs rotated by the row, half by the column.`,
  mrope: (s) => `q · k before 1/√d: ${vectors(s)}, rotated by time, row and column. Text, a picture, text.`,
  fope: (s) => `q · k before 1/√d: ${vectors(s)}. Each pair rotates by a mix of frequencies; the lowest are 0.`,
  lerope: (s) => `q · k before 1/√d: ${vectors(s)}, rotated by frequencies that moved as training might move them.`,
  latent: (s) => `q · k before 1/√d: ${vectors(s)}. Only the last channels are rotated.`,
  liere: (s) => `q · k before 1/√d: ${vectors(s)}, rotated by matrices drawn from the seed.`,
  selective: (s) => `q · k before 1/√d: ${vectors(s)}. Each token adds to the angles of all later ones.`,
  repo: (s) => `q · k before 1/√d: ${vectors(s)}. A small network reads a position from each.`,
  none: (s) => `q · k before 1/√d: ${vectors(s)}. Nothing rotates them.`,
  alibi: (s) => `${added(s)}: a slope times the distance. It does not depend on the tokens.`,
  t5: (s) => `${added(s)}: a number for each bucket of distances, here drawn at random.`,
  kerple: (s) =>
    `${added(s)}: ${s.form === "log" ? "−r1 ln(1 + r2 |m − n|)" : "−r1 |m − n|^r2"}. The other heads are as drawn.`,
  fire: (s) => `${added(s)}: an untrained network of the distance, as a share of the reach.`,
  sandwich: (s) => `${added(s)}: the product of two sinusoidal encodings, less at a distance.`,
  window: (s) => `${added(s)}: a number for each offset in rows and columns, here drawn at random.`,
  shaw: (s) => `${score} the query times a vector of the clipped offset; ${vectors(s)}. ${SEEDED}`,
  music: (s) => `${score} the query times a vector of the distance; ${vectors(s)}. ${SEEDED}`,
  transformer_xl: (s) => `${score} the query times a sinusoid of the distance, and a bias; ${vectors(s)}. ${SEEDED}`,
  deberta: (s) => `${score} contents times positions, both ways, in one scale; ${vectors(s)}. ${SEEDED}`,
  decomposed: (s) =>
    `${score} the query times a vector of the rows and one of the columns between; ${vectors(s)}. ${SEEDED}`,
  profiles: (s) => `${score} a few curves over the distance, mixed by the query; ${vectors(s)}. ${SEEDED}`,
  gated: (s) => `${score} a number for the bucket, times a gate of the query; ${vectors(s)}. ${SEEDED}`,
  cope: (s) => `${score} the query times a vector of how many tokens between matter to it; ${vectors(s)}. ${SEEDED}`,
  forget: (s) => `${score} what the forget gates between take away; ${vectors(s)}. ${SEEDED}`,
  path: (s) => `${score} what changes when each token between reflects the key; ${vectors(s)}. ${SEEDED}`,
}

/** What the similarity is computed of. @param {View} view */
export const meaning = ({ state: s }) => {
  const text = TEXTS[s.encoding](s)
  const softmax = s.causal
    ? "The softmax of each row; the first, of few keys, lie above the colors."
    : "The softmax of each row."
  return s.softmax ? `${softmax} ${text}` : text
}

/** The slope of ALiBi's chosen head, as the fraction that it often is. @param {State} s */
export const slopeOf = ({ heads, head }) => {
  const slope = alibiSlopes(heads)[head]
  return Number.isInteger(1 / slope) ? `1/${1 / slope}` : short(slope)
}

/** @type {Record<string, string>} */
const PATTERNS = {
  sinusoidal: "What is added to each token: a row for each, a column for each channel.",
  learned: "The table: a row for each position, a column for each channel.",
  fourier: "The features: a row for each position, all sines, then all cosines.",
  grid: "What is added to each patch, channel by channel; patches run row by row.",
  convolution: "What the filter adds to each token.",
  conditional: "What the filter adds to each patch; patches run row by row.",
  pope: "The query at each position: all its cosines, then all its sines.",
  none: "The query at each position. No position has entered.",
  fire: "Each head’s bias by offset, for the chosen query.",
  window: "The head’s number for each offset in rows and columns.",
  transformer_xl: "The sinusoid of each distance.",
  deberta: "A vector for each bucket of distances.",
  decomposed: "A vector for each number of rows between two patches.",
  profiles: "The bank: each row is a curve over the distance.",
  gated: "The number of each distance, before the gate.",
  cope: "A vector for each count.",
  forget: "How open the gate of each token is.",
  path: "The direction along which each token reflects keys.",
  liere: "The query, rotated to each patch.",
  axial: "The query, rotated to each patch, channel by channel.",
}

/** @param {View} view */
export const patternText = ({ state: s }) => {
  if (PATTERNS[s.encoding]) return PATTERNS[s.encoding]
  if (biased(s)) return "Each head’s bias, by offset."
  return kindOf(s).door === "score"
    ? "A vector for each offset."
    : "The query, rotated to each position, channel by channel."
}
