// A cache of few keys: which tokens it holds, at which positions, and which keys a query then attends to.

/** @typedef {"true positions" | "positions in the cache" | "keys counted"} Way */
/** @typedef {[number, number][]} Pairs a mean query times the conjugate of a mean key, real and imaginary, pair by pair
 */

/** The tokens in the cache when token `t` has come in, the newest last.
 * @type {(t: number, capacity: number, sinks: number) => number[]} */
export const cachedTokens = (t, capacity, sinks) => {
  const count = Math.min(t + 1, capacity)
  const first = t + 1 - count // so many are gone
  return Array.from({ length: count }, (_, slot) => (slot < sinks ? slot : slot + first))
}

/** The position of each key in the cache. Where keys are counted, a token got the number of keys that were kept.
 * @type {(tokens: number[], capacity: number, way: Way) => number[]} */
export const cachedPositions = (tokens, capacity, way) =>
  way === "true positions"
    ? tokens
    : tokens.map((token, slot) => (way === "positions in the cache" ? slot : Math.min(token, capacity - 1)))

/** The logits at the offsets 0 to `last`. @param {Pairs} pairs @param {number[]} theta @param {number} last */
export const curve = (pairs, theta, last) =>
  Float64Array.from({ length: last + 1 }, (_, distance) =>
    pairs.reduce(
      (sum, [re, im], i) => sum + re * Math.cos(theta[i] * distance) - im * Math.sin(theta[i] * distance),
      0,
    ),
  )

/** The weight of each key, the mean over heads.
 * @param {ArrayLike<number>[][]} heads of each head the curve of a letter's key and that of the first token's
 * @param {number[]} tokens @param {number[]} positions */
export const attentionWeights = (heads, tokens, positions) => {
  const weights = tokens.map(() => 0)
  const here = positions[positions.length - 1]
  for (const [letter, first] of heads) {
    const logits = tokens.map((token, i) => (token ? letter : first)[here - positions[i]])
    const top = Math.max(...logits)
    const shares = logits.map((a) => Math.exp(a - top))
    const sum = shares.reduce((a, b) => a + b, 0)
    shares.forEach((share, i) => (weights[i] += share / sum / heads.length))
  }
  return weights
}
