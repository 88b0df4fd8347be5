// Lines of Python that several encodings share.

import { APART } from "../encodings/common.js"
import { kindOf } from "../kinds.js"
import { wordsOf } from "../defaults.js"

/** @import { PageData, State } from "../types.js" */
/** @typedef {Record<string, (s: State, data: PageData) => string[]>} Bodies the import first, then the lines */

/** A number as Python writes it. @param {number} value */
export const number = (value) =>
  Number.isInteger(value) && value >= 10_000 ? value.toLocaleString("en").replaceAll(",", "_") : String(value)

/** @param {State} s */
export const positions = (s) => {
  const first = kindOf(s).knobs.includes("first") ? s.first : 0
  const many = wordsOf(s).length === s.length ? "len(words)" : String(s.length)
  if (!first) return `np.arange(${many})`
  return many === "len(words)"
    ? `${number(first)} + np.arange(len(words))`
    : `np.arange(${number(first)}, ${number(first + s.length)})`
}

/** What `q` and `k` hold: one vector each, or a row for each position.
 * @param {State} s @param {string} [alike] how constant contents are made */
export const contents = (s, alike = `q = k = np.ones(${s.width})`) => {
  if (!["random", "tokens"].includes(s.content)) return [alike]
  const draw = `draw = np.random.RandomState(${s.seed})`
  if (s.content === "random") return [draw, `q, k = draw.standard_normal((2, ${s.width}))`]
  const rows = `draw.standard_normal((2, ${s.length}, ${s.width}))`
  if (!s.words) return [draw, `q, k = ${rows}`]
  return [draw, "same = [words.index(word) for word in words]", `q, k = ${rows}[:, same]`]
}

/** A row for each position. @param {State} s @param {string} x */
export const rows = (s, x) => (s.content === "tokens" ? x : `np.tile(${x}, (${s.length}, 1))`)

/** The same with an axis for one head. @param {State} s @param {string} x */
export const heads = (s, x) => (s.content === "tokens" ? `${x}[None]` : `np.tile(${x}, (1, ${s.length}, 1))`)

/** Numbers that would be learned. @param {State} s */
export const learned = (s) => `np.random.RandomState(${s.seed + APART})`

/** Rows and columns of a picture's patches. @param {State} s */
export const places = (s) => `places = np.stack(np.divmod(np.arange(${s.length}), ${s.side}), axis=1)  # row, column`

/** @param {State} s */
export const root = (s) => `${s.width} ** 0.5`
