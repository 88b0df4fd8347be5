// A state: what it is before anyone sets it, and what each value allows the others.

import { biased, kindOf } from "./kinds.js"
import { KNOBS, trained } from "./settings.js"

/** @import { Bounds, Knob, PageData, State } from "./types.js" */

const MOST_WORDS = 24
const LONGEST = { path: 128, score: 256 } // positions, where each costs more than those before it

/** @param {State} s @returns {string[]} */
export const wordsOf = (s) => (s.words ? s.words.split(" ") : [])

/** The number of the first position. @param {State} s */
export const firstOf = (s) => (!s.words && kindOf(s).knobs.includes("first") ? s.first : 0)

/** What stands at a position: a word, or its number. @param {State} s @param {number} p */
export const wordAt = (s, p) => wordsOf(s)[p] ?? String(p + firstOf(s))

/** A sentence as its words with one space between. @param {string} text */
export const sentence = (text) => text.split(/\s+/).filter(Boolean).slice(0, MOST_WORDS).join(" ")

/** What nobody has set: of an encoding, over a sentence or over numbered positions.
 * @type {(data: PageData, encoding?: string, numbered?: boolean) => State} */
export const defaults = (data, encoding = data.choices.encoding[0], numbered = false) => {
  const values = KNOBS.map(({ name }) => {
    const value = data.choices[name]?.[0] ?? data.toggles[name] ?? data.knobs[name]?.value ?? data.words
    return [name, value]
  })
  const usual = { ...Object.fromEntries(values), encoding }
  const apart = numbered || kindOf(usual).grid || encoding === "mrope"
  const place = apart ? { words: "", query: data.away.query, key: data.away.key } : {}
  return { ...usual, ...place, ...kindOf(usual).usual }
}

/** A number within its bounds, whole where its knob is.
 * @type {(knob: Knob, value: number, bounds: Bounds) => number} */
export const bounded = ({ kind, whole, step = 1 }, value, { min, max }) => {
  const near = kind === "integer" ? Math.round(value / step) * step : whole ? Math.round(value) : value
  return Math.min(max, Math.max(min, near))
}

/** A number as a hand on its slider means it: of few digits, or a power of two that is near.
 * @type {(knob: Knob, value: number, bounds: Bounds) => number} */
export const rounded = (knob, value, bounds) => {
  const power = 2 ** Math.round(Math.log2(value))
  const near =
    knob.kind === "share"
      ? Number(value.toFixed(2))
      : knob.kind !== "log"
        ? value
        : knob.whole && Math.abs(Math.log(value / power)) < 0.02
          ? power
          : Number(value.toPrecision(3))
  return bounded(knob, near, bounds)
}

/** Columns of the pattern, where they are channels. @param {State} s */
export const columnsOf = (s) => (s.encoding === "pope" ? 2 * s.width : s.width)

/** How wide vectors may be and in which steps. @param {State} s */
const fitted = (s) => {
  const step = s.encoding === "liere" ? Number(s.block) : kindOf(s).grid && !biased(s) ? 4 : 2
  const most = Math.min(s.width, kindOf(s).widest ?? Infinity)
  return Math.max(step, Math.floor(most / step) * step)
}

/** The most positions of an encoding. @param {State} s */
export const longest = (s) =>
  Math.min(...[s.encoding, kindOf(s).door].map((name) => LONGEST[/** @type {"path"} */ (name)] ?? Infinity))

/** How many positions there are. @param {State} s */
const counted = (s) => {
  if (kindOf(s).grid) return s.side ** 2
  if (s.encoding === "mrope") return s.side ** 2 + 2 * s.before
  return Math.min(wordsOf(s).length || s.length, longest(s))
}

/** The state with every value inside what the others allow. @type {(state: State, data: PageData) => State} */
export const settle = (state, data) => {
  const s = { ...state }
  const spatial = kindOf(s).grid || s.encoding === "mrope"
  s.words = spatial ? "" : sentence(s.words)
  s.length = counted(s)
  s.width = fitted(s)
  if (trained(s)) {
    s.length = Math.min(s.length, data.trained.length)
    s.width = data.trained.dim
  }
  if (s.encoding !== "rope" && s.content === "peak") s.content = data.choices.content[0]
  const last = s.length - 1
  s.query = Math.min(s.query, last)
  s.key = Math.min(s.key, s.causal ? s.query : last)
  s.channel = Math.min(s.channel, columnsOf(s) - 1)
  s.head = Math.min(s.head, s.heads - 1)
  s.peak = Math.min(s.peak, last)
  s.max_distance = Math.max(s.max_distance, s.buckets)
  if (spatial || !KNOBS.find(({ name }) => name === "far")?.when(s)) s.far = false
  return s
}
