// Whether an answer of the workbook is right, and which slip it looks like: the table is that of `posenc_book.workbook`.

import { numbersOf } from "./expression.js"

/** @typedef {{ numbers: number | number[], whole: boolean }} Value */
/**
 * @typedef {object} Exercise
 * @property {"number" | "array" | "choice"} kind
 * @property {string} why
 * @property {Value | string} right
 * @property {Array<[Value | string, string]>} wrong
 * @property {string[]} [options]
 * @property {number} [rtol]
 * @property {number} [atol]
 */
/** @typedef {Array<[number, string]>} Scales */

const ROUNDING = 1e-6 // how far a whole number may be off and still be met

/** @param {Value | string} value @returns {number[]} */
const flat = (value) => (typeof value === "string" ? [] : [value.numbers].flat())

/** @param {number} a @param {number} b @param {number} rtol @param {number} atol */
const near = (a, b, rtol, atol) => Math.abs(a - b) <= atol + rtol * Math.abs(b)

/** @param {number[]} given @param {number[]} right @param {number} rtol @param {number} atol */
const all = (given, right, rtol, atol) =>
  given.length === right.length && given.every((x, i) => near(x, right[i], rtol, atol))

/** @param {number[]} given @param {Value} value @param {Exercise} exercise */
const same = (given, value, { rtol = 0, atol = 0 }) =>
  value.whole ? all(given, flat(value), 0, ROUNDING) : all(given, flat(value), rtol, atol)

/** @param {number} value */
const shown = (value) => {
  const near = Math.abs(value) < 1000 ? Number(value.toPrecision(4)) : Number(value.toFixed(1))
  return near.toLocaleString("en", { maximumFractionDigits: 12 })
}

/** In words, how one number differs. @param {number} given @param {number} right @param {boolean} whole */
const one = (given, right, whole) => {
  if (whole && Math.abs(given - right) === 1) return "one off: count the ends again"
  if (right && near(given * right, 1, 1e-3, 0)) return "this is one divided by the answer"
  if (right > 0 && near(given, right ** 2, 1e-3, 0)) return "this is the square of the answer"
  if (right > 0 && given > 0 && near(given ** 2, right, 1e-3, 0)) return "this is the square root of the answer"
  if (whole && given % 1) return `${shown(given)} is no whole number, and one is asked for`
  if (!whole && near(given, right, 0.02, 0)) return "very close: give more digits, or look for a small slip"
  return `${shown(given)} is too ${given > right ? "large" : "small"}`
}

/** @param {number[]} given @param {number[]} right @param {number} rtol @param {number} atol @param {boolean} whole */
const several = (given, right, rtol, atol, whole) => {
  if (all(given.toReversed(), right, rtol, atol)) return "the right numbers, from the wrong end"
  const sorted = (/** @type {number[]} */ numbers) => numbers.toSorted((a, b) => a - b)
  if (all(sorted(given), sorted(right), rtol, atol)) return "the right numbers, in another order"
  const cut = (/** @type {number} */ n) => right.map((x) => Number(x.toFixed(n)))
  if (!whole && given.some(Boolean) && [1, 2, 3].some((n) => all(given, cut(n), 0, 1e-9)))
    return "right as far as they go; give more decimals"
  const wrong = given.findIndex((x, i) => !near(x, right[i], rtol, atol))
  const good = given.filter((x, i) => near(x, right[i], rtol, atol)).length
  const fraction = whole && given[wrong] % 1
  const side = fraction ? "no whole number" : `too ${given[wrong] > right[wrong] ? "large" : "small"}`
  const first = `the first that is not stands at [${wrong}], where ${shown(given[wrong])} is ${side}`
  return `${good} of ${given.length} numbers are right; ${first}`
}

/** @type {(given: number[], exercise: Exercise, scales: Scales) => string} */
const difference = (given, exercise, scales) => {
  const right = /** @type {Value} */ (exercise.right)
  const numbers = flat(right)
  const single = !Array.isArray(right.numbers)
  if (given.length !== numbers.length)
    return single ? `${given.length} numbers came in, and one is asked for` : `${numbers.length} numbers are asked for`
  if (!given.every(Number.isFinite)) return single ? "it is no finite number" : "it holds what is no finite number"
  const digits = single
    ? String(given[0])
        .replace(/e.*|[-.]/g, "")
        .replace(/^0+|0+$/g, "")
    : ""
  if (digits && !right.whole && near(Number(numbers[0].toPrecision(digits.length)), given[0], 1e-9, 0))
    return `right as far as it goes; give more than ${digits.length} digit${digits.length > 1 ? "s" : ""}`
  const [rtol, atol] = right.whole ? [0, ROUNDING] : [exercise.rtol ?? 0, exercise.atol ?? 0]
  for (const [scale, words] of scales) {
    const scaled = numbers.map((x) => scale * x)
    if (numbers.some(Boolean) && all(given, scaled, rtol, atol)) return words
  }
  return single ? one(given[0], numbers[0], right.whole) : several(given, numbers, rtol, atol, right.whole)
}

/** @param {string} text @param {Exercise} exercise @param {Scales} scales @returns {string} what is wrong, or nothing */
const problemOf = (text, exercise, scales) => {
  if (exercise.kind === "choice") {
    const letter = text.trim().toLowerCase()
    if (letter === exercise.right) return ""
    const options = exercise.options ?? []
    if (!options.includes(letter)) return `choose a letter, ${options.slice(0, -1).join(", ")} or ${options.at(-1)}`
    return exercise.wrong.find(([wrong]) => wrong === letter)?.[1] ?? `${letter} is not it`
  }
  const given = numbersOf(text)
  if (!given) return "this cannot be read as numbers; leave out words and units"
  if (same(given, /** @type {Value} */ (exercise.right), exercise)) return ""
  const known = exercise.wrong.find(([wrong]) => same(given, /** @type {Value} */ (wrong), exercise))
  return known?.[1] ?? difference(given, exercise, scales)
}

/** @type {(text: string, exercise: Exercise, scales: Scales) => { right: boolean, words: string }} */
export const judge = (text, exercise, scales) => {
  const problem = problemOf(text, exercise, scales)
  const words = problem ? `Not yet: ${problem}` : `Right: ${exercise.why}`
  return { right: !problem, words: /[.?!]$/.test(words) ? words : `${words}.` }
}
