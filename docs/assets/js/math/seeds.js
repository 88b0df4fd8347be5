// Two encodings, a few runs each: the interval of their difference, and what such intervals see in the long run.
// The unit is everywhere the true standard deviation of a run.

const STEPS = 1000 // of Simpson's rule

/** The normal density. @param {number} x */
const bell = (x) => Math.exp((-x * x) / 2) / Math.sqrt(2 * Math.PI)

/** How often a standard normal number is less than `x`. @param {number} x */
export const below = (x) => {
  if (Math.abs(x) > 8) return x > 0 ? 1 : 0
  let term = x
  let sum = x
  for (let k = 3; Math.abs(term) > 1e-17; k += 2) sum += term *= (x * x) / k
  return 0.5 + sum * bell(x)
}

/** The difference of two means, and half of its interval.
 * @param {number[]} first @param {number[]} second
 * @param {number} visible the least visible difference, in standard deviations */
export const interval = (first, second, visible) => {
  const mean = (/** @type {number[]} */ runs) => runs.reduce((a, b) => a + b, 0) / runs.length
  const squares = (/** @type {number[]} */ runs) => runs.reduce((a, b) => a + (b - mean(runs)) ** 2, 0)
  const pooled = (squares(first) + squares(second)) / (2 * first.length - 2)
  return { middle: mean(first) - mean(second), half: visible * Math.sqrt(pooled) }
}

/** The density of the standard deviation that two times `runs` runs show, where the true one is 1.
 * @type {(s: number, runs: number) => number} */
export const ofSpread = (s, runs) => {
  const half = runs - 1 // of the degrees of freedom
  let log = Math.log(2) + half * Math.log(half) + (2 * half - 1) * Math.log(s) - half * s * s
  for (let k = 2; k < half; k++) log -= Math.log(k) // Γ(half)
  return Math.exp(log)
}

/** What becomes of a true gap, as shares of all comparisons: the worse one is ahead (`behind`); the interval shows the
 * gap (`clear`), or its opposite (`wrong`); and the mean gap that is `found` where it shows.
 * @param {number} gap @param {number} runs @param {number | null} visible */
export const chances = (gap, runs, visible) => {
  const error = Math.sqrt(2 / runs)
  const behind = below(-gap / error)
  if (visible === null) return { behind, clear: 0, wrong: 0, found: NaN } // one run has no interval
  const end = 1 + 9 / Math.sqrt(2 * runs - 2)
  const sums = [0, 0, 0]
  for (let i = 1; i <= STEPS; i++) {
    const s = (i * end) / STEPS
    const weight = (ofSpread(s, runs) * end * (i === STEPS ? 1 : i % 2 ? 4 : 2)) / (3 * STEPS)
    const over = (gap - visible * s) / error
    sums[0] += weight * below(over)
    sums[1] += weight * below((-gap - visible * s) / error)
    sums[2] += weight * (gap * below(over) + error * bell(over))
  }
  return { behind, clear: sums[0], wrong: sums[1], found: sums[2] / sums[0] }
}
