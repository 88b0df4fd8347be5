// States as an address: what is set, of one view or of two beside each other.

import { KINDS } from "./kinds.js"
import { KNOBS } from "./settings.js"
import { bounded, defaults, sentence, settle } from "./defaults.js"

/** @import { Knob, PageData, State } from "./types.js" */

const OTHER = "b." // before the names of the second view
/** What both views share. */
export const SHARED = ["words", "length", "query", "key", "channel", "causal", "softmax", "far"]

/** @param {string} text */
const plain = (text) => {
  try {
    return decodeURIComponent(text.replace(/\+/g, " "))
  } catch {
    return ""
  }
}

/** The parts of an address, by their names. @param {string} query @returns {Map<string, string>} */
const partsOf = (query) => {
  const parts = query.replace(/^\?/, "").split("&")
  return new Map(parts.map((part) => part.split("=", 2)).map(([name, text = ""]) => [name, plain(text)]))
}

/** A value out of an address, or the default.
 * @type {(knob: Knob, text: string, data: PageData, fallback: any) => any} */
const read = (knob, text, data, fallback) => {
  if (knob.kind === "text") return sentence(text)
  if (knob.kind === "choice") return data.choices[knob.name].includes(text) ? text : fallback
  if (knob.kind === "toggle") return text === "true" || (text === "false" ? false : fallback)
  const number = text.trim() === "" ? NaN : Number(text)
  return Number.isFinite(number) ? bounded(knob, number, data.knobs[knob.name]) : fallback
}

/** Whether an address means numbered positions: it says how many, one beyond the sentence, or offsets beyond it.
 * @type {(parts: Map<string, string>, data: PageData) => boolean} */
const numbers = (parts, data) => {
  const words = parts.get("words")
  if (words !== undefined) return !sentence(words)
  const count = data.words.split(" ").length
  if (parts.has("length") || parts.get("far") === "true") return true
  return ["query", "key", "first"].some((name) => Number(parts.get(name) ?? 0) >= count)
}

/** @param {Map<string, string>} parts @param {State} usual @param {PageData} data */
const filled = (parts, usual, data) => {
  const state = { ...usual }
  for (const knob of KNOBS) {
    const text = parts.get(knob.name)
    if (text !== undefined && knob.name !== "encoding") state[knob.name] = read(knob, text, data, state[knob.name])
  }
  return state
}

/** @param {Map<string, string>} parts */
const encodingOf = (parts) => {
  const name = parts.get("encoding")
  return name !== undefined && Object.hasOwn(KINDS, name) ? name : undefined
}

/** What an address asks for, though some of it may forbid the rest.
 * @param {string} query such as "?encoding=rope&length=256" @param {PageData} data @returns {State} */
export const asked = (query, data) => {
  const parts = partsOf(query)
  // An address that asks for nothing gets what the page begins with.
  if (data.start && !query.replace(/^\?/, "")) return { ...defaults(data, data.start.encoding, true), ...data.start }
  return filled(parts, defaults(data, encodingOf(parts), numbers(parts, data)), data)
}

/** The state that an address asks for. @param {string} query @param {PageData} data */
export const fromQuery = (query, data) => settle(asked(query, data), data)

/** What both views share, taken from the first. @param {State} a */
export const shared = (a) => Object.fromEntries(SHARED.map((name) => [name, a[name]]))

/** What an address asks of a second view, if it has one. @type {(query: string, data: PageData) => State | null} */
export const otherAsked = (query, data) => {
  const own = Array.from(partsOf(query)).filter(([name]) => name.startsWith(OTHER))
  const parts = new Map(own.map(([name, text]) => [name.slice(OTHER.length), text]))
  if (!parts.has("encoding")) return null
  for (const name of SHARED) parts.delete(name)
  return filled(parts, defaults(data, encodingOf(parts)), data)
}

/** The second view of an address, if it has one. @type {(query: string, a: State, data: PageData) => State | null} */
export const otherFromQuery = (query, a, data) => {
  const state = otherAsked(query, data)
  return state && settle({ ...state, ...shared(a) }, data)
}

/** Names of encodings in an address that are none. @param {string} query */
export const unknown = (query) => {
  const parts = partsOf(query)
  return ["encoding", `${OTHER}encoding`]
    .map((name) => parts.get(name))
    .filter((name) => name && !Object.hasOwn(KINDS, name))
}

/** @param {Knob[]} knobs @param {State} state @param {string} [before] */
const written = (knobs, state, before = "") =>
  knobs.map(({ name }) => `${before}${name}=${encodeURIComponent(String(state[name])).replace(/%20/g, "+")}`).join("&")

/** Knobs that must be said: without one of them, another view would come back.
 * @type {(state: State, data: PageData, again: (knobs: Knob[]) => State) => Knob[]} */
const needed = (state, data, again) => {
  const usual = [defaults(data), defaults(data, state.encoding), defaults(data, state.encoding, true)]
  const applies = KNOBS.filter(({ when }) => when(state))
  // An address that says nothing asks for what the page begins with.
  const always = (/** @type {Knob} */ { name }) => Boolean(data.start) && name === "encoding"
  let required = applies.filter((knob) => always(knob) || usual.some((other) => state[knob.name] !== other[knob.name]))
  for (const knob of required
    .filter((knob) => !always(knob))
    .sort((a, b) => Number(a.kind === "text") - Number(b.kind === "text"))) {
    const others = required.filter((other) => other !== knob)
    const then = again(others)
    if (applies.every(({ name }) => then[name] === state[name])) required = others
  }
  return required
}

/** The address of a state: what applies, and would be otherwise if it were not said.
 * @type {(state: State, data: PageData, other?: State | null) => string} */
export const toQuery = (state, data, other = null) => {
  const back = (/** @type {Knob[]} */ knobs) => fromQuery(written(knobs, state), data)
  const parts = [written(needed(state, data, back), state)]
  if (other) {
    const isOwn = (/** @type {Knob} */ { name }) => name !== "encoding" && !SHARED.includes(name)
    const encoding = KNOBS.filter(({ name }) => name === "encoding")
    const returns = (/** @type {Knob[]} */ knobs) => {
      const query = written([...encoding, ...knobs.filter(isOwn)], other, OTHER)
      return /** @type {State} */ (otherFromQuery(query, state, data))
    }
    parts.push(written([...encoding, ...needed(other, data, returns).filter(isOwn)], other, OTHER))
  }
  const query = parts.filter(Boolean).join("&")
  return query ? `?${query}` : ""
}
