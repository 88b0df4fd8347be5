// From scores to weights.

/** Weights that sum to one; a score of -∞ gets none. @param {ArrayLike<number>} scores @returns {Float64Array} */
export const softmax = (scores) => {
  const most = Math.max(...Array.from(scores))
  const weights = Float64Array.from(scores, (score) => Math.exp(score - most))
  const sum = weights.reduce((a, b) => a + b, 0)
  return weights.map((weight) => weight / sum)
}

/** Each query's weights over the keys up to itself, of a matrix of scores.
 * @type {(scores: ArrayLike<number>, keys: number, causal: boolean) => Float64Array} */
export const attend = (scores, keys, causal) => {
  const weights = new Float64Array(scores.length)
  for (let m = 0; m * keys < scores.length; m++) {
    const visible = causal ? m + 1 : keys
    const row = Float64Array.from({ length: visible }, (_, n) => scores[m * keys + n])
    weights.set(softmax(row), m * keys)
  }
  return weights
}
