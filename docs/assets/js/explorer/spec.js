// What can be set, where it applies, and how it is written into an address. Every number comes from the page.

/** @import { State, Bounds, Given, Knob } from "./types.js" */

const of =
  (/** @type {string[]} */ ...names) =>
  (/** @type {State} */ s) =>
    names.includes(s.encoding)
const VECTORS = of("rope", "pope", "none")
export const biased = of("alibi", "t5", "kerple", "fire")
const waves = of("sinusoidal", "rope", "pope")
const scaled =
  (/** @type {string[]} */ ...names) =>
  (/** @type {State} */ s) =>
    s.encoding === "rope" && names.includes(s.scaling)
const BY_LENGTH = ["dynamic_ntk", "by_parts", "yarn", "llama3"] // scalings that know the original length
const stretches = scaled("linear", "ntk", ...BY_LENGTH)
const trained = (/** @type {State} */ s) => s.encoding === "learned" && s.table === "trained"
const drawn = (/** @type {State} */ s) =>
  (VECTORS(s) && ["random", "tokens"].includes(s.content)) ||
  (s.encoding === "pope" && s.phase === "uniform") ||
  (s.encoding === "learned" && !trained(s)) ||
  of("t5", "kerple", "fire")(s)
const peaked = (/** @type {State} */ s) =>
  (s.encoding === "rope" && s.content === "peak") || (s.encoding === "pope" && s.phase === "peak")

/** @type {Knob[]} */
export const KNOBS = [
  { name: "encoding", label: "encoding", kind: "choice", when: () => true },
  { name: "order", label: "order", kind: "choice", when: of("sinusoidal") },
  { name: "table", label: "table", kind: "choice", when: of("learned") },
  { name: "form", label: "form", kind: "choice", when: of("kerple") },
  { name: "layout", label: "layout", kind: "choice", when: of("rope") },
  { name: "scaling", label: "scaling", kind: "choice", when: of("rope") },
  { name: "factor", label: "factor", kind: "log", when: stretches },
  { name: "original_length", label: "original length", kind: "log", whole: true, when: scaled(...BY_LENGTH) },
  { name: "fraction", label: "fraction", kind: "share", when: scaled("proportional") },
  { name: "length", label: "length", kind: "integer", when: () => true },
  { name: "width", label: "width", kind: "integer", step: 2, when: (s) => !biased(s) && !trained(s) },
  { name: "base", label: "base", kind: "log", when: waves },
  { name: "first", label: "first position", kind: "integer", when: of("sinusoidal", "rope", "pope", "fire") },
  { name: "content", label: "query and key", kind: "choice", when: VECTORS },
  { name: "phase", label: "phase", kind: "choice", when: of("pope") },
  { name: "peak", label: "peak at distance", kind: "integer", when: peaked },
  { name: "heads", label: "heads", kind: "integer", when: biased },
  { name: "head", label: "head", kind: "integer", when: biased },
  { name: "buckets", label: "buckets", kind: "integer", step: 4, when: of("t5") },
  { name: "max_distance", label: "max distance", kind: "integer", when: of("t5") },
  { name: "bidirectional", label: "bidirectional", kind: "toggle", when: of("t5") },
  { name: "r1", label: "r1 of this head", kind: "log", when: of("kerple") },
  { name: "r2", label: "r2 of this head", kind: "log", when: of("kerple") },
  { name: "c", label: "c", kind: "log", when: of("fire") },
  { name: "threshold", label: "threshold", kind: "log", whole: true, when: of("fire") },
  { name: "seed", label: "seed", kind: "integer", when: drawn },
  { name: "causal", label: "hide the keys ahead", kind: "toggle", when: () => true },
  { name: "query", label: "query", kind: "integer", when: () => true },
  { name: "key", label: "key", kind: "integer", when: () => true },
  { name: "channel", label: "channel", kind: "integer", when: (s) => !biased(s) },
]

/** @param {Given} given @returns {State} */
export const defaults = (given) =>
  Object.fromEntries(
    KNOBS.map(({ name }) => [name, given.choices[name]?.[0] ?? given.toggles[name] ?? given.knobs[name].value]),
  )

/** A number as its slider can hold it. @param {Knob} knob @param {number} value @param {Bounds} bounds */
export const rounded = (knob, value, { min, max }) => {
  const step = knob.step ?? 1
  const near =
    knob.kind === "integer"
      ? Math.round(value / step) * step
      : knob.kind === "share"
        ? Number(value.toFixed(2))
        : Number(value.toPrecision(3))
  return Math.min(max, Math.max(min, knob.whole ? Math.round(near) : near))
}

/** Columns of the pattern. @param {State} s */
export const columnsOf = (s) => (s.encoding === "pope" ? 2 * s.width : s.width)

/** The state with every value inside what the others allow. @param {State} state @param {Given} given @returns {State} */
export const settle = (state, given) => {
  const s = { ...state }
  if (trained(s)) {
    s.length = Math.min(s.length, given.trained.length)
    s.width = given.trained.dim
  }
  if (s.encoding !== "rope" && s.content === "peak") s.content = given.choices.content[0]
  const last = s.length - 1
  s.query = Math.min(s.query, last)
  s.key = Math.min(s.key, s.causal ? s.query : last)
  s.channel = Math.min(s.channel, columnsOf(s) - 1)
  s.head = Math.min(s.head, s.heads - 1)
  s.peak = Math.min(s.peak, last)
  s.max_distance = Math.max(s.max_distance, s.buckets)
  return s
}

/** A value out of an address, or the default. @param {Knob} knob @param {string} text @param {Given} given @param {any} fallback */
const read = (knob, text, given, fallback) => {
  if (knob.kind === "choice") return given.choices[knob.name].includes(text) ? text : fallback
  if (knob.kind === "toggle") return text === "true" || (text === "false" ? false : fallback)
  const number = text.trim() === "" ? NaN : Number(text)
  return Number.isFinite(number) ? rounded(knob, number, given.knobs[knob.name]) : fallback
}

/** The state that an address asks for. @param {string} query such as "?encoding=rope&length=256" @param {Given} given @returns {State} */
export const fromQuery = (query, given) => {
  const state = defaults(given)
  for (const part of query.replace(/^\?/, "").split("&")) {
    const [name, text = ""] = part.split("=", 2)
    const knob = KNOBS.find((each) => each.name === name)
    if (knob) state[name] = read(knob, plain(text), given, state[name])
  }
  return settle(state, given)
}

/** The address of a state: what applies, and would be otherwise if it were not said. @param {State} state @param {Given} given */
export const toQuery = (state, given) => {
  const usual = defaults(given)
  const applies = KNOBS.filter(({ when }) => when(state))
  const written = (/** @type {Knob[]} */ knobs) =>
    knobs.map(({ name }) => `${name}=${encodeURIComponent(String(state[name]))}`).join("&")
  let said = applies.filter(({ name }) => state[name] !== usual[name])
  for (const knob of said) {
    const others = said.filter((each) => each !== knob)
    const then = fromQuery(written(others), given)
    if (applies.every(({ name }) => then[name] === state[name])) said = others
  }
  return said.length ? `?${written(said)}` : ""
}

/** @param {string} text */
const plain = (text) => {
  try {
    return decodeURIComponent(text.replace(/\+/g, " "))
  } catch {
    return ""
  }
}
