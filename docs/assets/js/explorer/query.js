// States as an address: what is set, of one view or of two beside each other.

import { KINDS } from "./kinds.js"
import { KNOBS } from "./settings.js"
import { bounded, defaults, sentence, settle } from "./defaults.js"

/** @import { Given, Knob, State } from "./types.js" */

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
  return new Map(
    parts.map((part) => {
      const [name, text = ""] = part.split("=", 2)
      return [name, plain(text)]
    }),
  )
}

/** A value out of an address, or the default. @type {(knob: Knob, text: string, given: Given, fallback: any) => any} */
const read = (knob, text, given, fallback) => {
  if (knob.kind === "text") return sentence(text)
  if (knob.kind === "choice") return given.choices[knob.name].includes(text) ? text : fallback
  if (knob.kind === "toggle") return text === "true" || (text === "false" ? false : fallback)
  const number = text.trim() === "" ? NaN : Number(text)
  return Number.isFinite(number) ? bounded(knob, number, given.knobs[knob.name]) : fallback
}

/** Whether an address means numbered positions: it says how many, or one beyond the sentence.
 * @type {(parts: Map<string, string>, given: Given) => boolean} */
const numbers = (parts, given) => {
  const words = parts.get("words")
  if (words !== undefined) return !sentence(words)
  const count = given.words.split(" ").length
  return parts.has("length") || ["query", "key", "first"].some((name) => Number(parts.get(name) ?? 0) >= count)
}

/** @param {Map<string, string>} parts @param {State} usual @param {Given} given */
const filled = (parts, usual, given) => {
  const state = { ...usual }
  for (const knob of KNOBS) {
    const text = parts.get(knob.name)
    if (text !== undefined && knob.name !== "encoding") state[knob.name] = read(knob, text, given, state[knob.name])
  }
  return state
}

/** @param {Map<string, string>} parts */
const encodingOf = (parts) => {
  const name = parts.get("encoding")
  return name !== undefined && Object.hasOwn(KINDS, name) ? name : undefined
}

/** What an address asks for, though some of it may forbid the rest.
 * @param {string} query such as "?encoding=rope&length=256" @param {Given} given @returns {State} */
export const asked = (query, given) => {
  const parts = partsOf(query)
  return filled(parts, defaults(given, encodingOf(parts), numbers(parts, given)), given)
}

/** The state that an address asks for. @param {string} query @param {Given} given */
export const fromQuery = (query, given) => settle(asked(query, given), given)

/** What both views share, taken from the first. @param {State} a */
export const shared = (a) => Object.fromEntries(SHARED.map((name) => [name, a[name]]))

/** What an address asks of a second view, if it has one. @type {(query: string, given: Given) => State | null} */
export const otherAsked = (query, given) => {
  const own = Array.from(partsOf(query)).filter(([name]) => name.startsWith(OTHER))
  const parts = new Map(own.map(([name, text]) => [name.slice(OTHER.length), text]))
  if (!parts.has("encoding")) return null
  for (const name of SHARED) parts.delete(name)
  return filled(parts, defaults(given, encodingOf(parts)), given)
}

/** The second view of an address, if it has one. @type {(query: string, a: State, given: Given) => State | null} */
export const otherFromQuery = (query, a, given) => {
  const state = otherAsked(query, given)
  return state && settle({ ...state, ...shared(a) }, given)
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
 * @type {(state: State, given: Given, again: (knobs: Knob[]) => State) => Knob[]} */
const needed = (state, given, again) => {
  const usual = [defaults(given), defaults(given, state.encoding), defaults(given, state.encoding, true)]
  const applies = KNOBS.filter(({ when }) => when(state))
  let required = applies.filter(({ name }) => usual.some((other) => state[name] !== other[name]))
  for (const knob of [...required].sort((a, b) => Number(a.kind === "text") - Number(b.kind === "text"))) {
    const others = required.filter((each) => each !== knob)
    const then = again(others)
    if (applies.every(({ name }) => then[name] === state[name])) required = others
  }
  return required
}

/** The address of a state: what applies, and would be otherwise if it were not said.
 * @type {(state: State, given: Given, other?: State | null) => string} */
export const toQuery = (state, given, other = null) => {
  const back = (/** @type {Knob[]} */ knobs) => fromQuery(written(knobs, state), given)
  const parts = [written(needed(state, given, back), state)]
  if (other) {
    const isOwn = (/** @type {Knob} */ { name }) => name !== "encoding" && !SHARED.includes(name)
    const encoding = KNOBS.filter(({ name }) => name === "encoding")
    const returns = (/** @type {Knob[]} */ knobs) => {
      const query = written([...encoding, ...knobs.filter(isOwn)], other, OTHER)
      return /** @type {State} */ (otherFromQuery(query, state, given))
    }
    parts.push(written([...encoding, ...needed(other, given, returns).filter(isOwn)], other, OTHER))
  }
  const query = parts.filter(Boolean).join("&")
  return query ? `?${query}` : ""
}
