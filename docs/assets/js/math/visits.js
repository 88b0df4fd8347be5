// How often texts reach the rows of a table of positions: chapter 2.1, Property 3, in another language.

import { randomState } from "./random.js"

/** The share of texts that are longer than p.
 * @param {string} kind "packed", "uniform" from 1 to `rows` tokens, or "short" @param {number} p @param {number} rows
 * @param {number} mean of short texts */
export const tail = (kind, p, rows, mean) =>
  kind === "packed" ? 1 : kind === "uniform" ? 1 - p / rows : (1 - 1 / mean) ** p

/** The visits that a row expects, if a share `tail` of the texts reaches it.
 * @param {number} tail @param {number} texts a step @param {number} steps */
export const visits = (tail, texts, steps) => tail * texts * steps

/** The steps that a row expects to learn in. @param {number} tail @param {number} texts @param {number} steps */
export const updates = (tail, texts, steps) => steps * (1 - (1 - tail) ** texts)

/** How many rows, from the first on, expect so many visits.
 * @param {ArrayLike<number>} tails of all rows @param {number} enough @param {number} texts @param {number} steps */
export const edge = (tails, enough, texts, steps) => {
  let row = 0
  while (row < tails.length && visits(tails[row], texts, steps) >= enough) row += 1
  return row
}

/** One run: each text draws its length, and takes the rows from 0 on.
 * @param {ArrayLike<number>} tails never growing @param {number} texts @param {number} steps @param {number} seed
 * @returns {{ visits: Int32Array, updates: Int32Array }} */
export const run = (tails, texts, steps, seed) => {
  const { uniform } = randomState(seed)
  const ends = { visits: new Int32Array(tails.length + 1), updates: new Int32Array(tails.length + 1) }
  for (let step = 0; step < steps; step++) {
    let longest = 0
    for (let text = 0; text < texts; text++) {
      const length = countAbove(tails, uniform())
      ends.visits[length] += 1
      longest = Math.max(longest, length)
    }
    ends.updates[longest] += 1
  }
  return { visits: countBehind(ends.visits), updates: countBehind(ends.updates) }
}

/** How many tails exceed `draw`, by halving. @param {ArrayLike<number>} tails @param {number} draw */
const countAbove = (tails, draw) => {
  let [low, high] = [0, tails.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (draw < tails[middle]) low = middle + 1
    else high = middle
  }
  return low
}

/** How many end behind row p, for each p. @param {Int32Array} ends by length */
const countBehind = (ends) => {
  const counts = new Int32Array(ends.length - 1)
  let sum = 0
  for (let p = counts.length - 1; p >= 0; p--) {
    sum += ends[p + 1]
    counts[p] = sum
  }
  return counts
}
