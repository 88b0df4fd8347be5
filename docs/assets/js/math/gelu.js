// The Gaussian error linear unit, to the last digits: JavaScript has no erf.

const ROOT = Math.sqrt(Math.PI)
const NEAR = 2.5 // up to here the series is exact, beyond it the continued fraction

/** @param {number} x 0 or more */
const series = (x) => {
  let [term, sum] = [x, x]
  for (let n = 1; Math.abs(term) > 1e-18 * sum; n++) {
    term *= (2 * x * x) / (2 * n + 1)
    sum += term
  }
  return (2 / ROOT) * Math.exp(-x * x) * sum || 0
}

/** 1 - erf. @param {number} x above 2 */
const fraction = (x) => {
  let below = x
  for (let n = 60; n > 0; n--) below = x + n / 2 / below
  return Math.exp(-x * x) / ROOT / below
}

/** @param {number} x */
const erf = (x) => {
  const size = Math.abs(x)
  return Math.sign(x) * (size < NEAR ? series(size) : 1 - fraction(size))
}

/** @param {number} x */
export const gelu = (x) => (x * (1 + erf(x / Math.SQRT2))) / 2
