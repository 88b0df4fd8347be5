// How far a head looks, and what a far token must say to be heard. Weights and biases count from the nearest token.

/** Tokens in which a weight halves. @param {number} slope */
export const halfLife = (slope) => Math.log(2) / slope

/** @param {ArrayLike<number>} weights */
export const meanDistance = (weights) => {
  let sum = 0
  for (let distance = 0; distance < weights.length; distance++) sum += distance * weights[distance]
  return sum
}

/** How many of the nearest tokens hold `share` of all weight.
 * @type {(weights: ArrayLike<number>, share: number) => number} */
export const holding = (weights, share) => {
  let [sum, count] = [0, 0]
  while (sum < share && count < weights.length) sum += weights[count++]
  return count
}

/** Mean distance and `holding` in an endless text of equal tokens. @param {number} slope @param {number} share */
export const endless = (slope, share) => ({
  mean: 1 / Math.expm1(slope),
  count: Math.ceil(-Math.log(1 - share) / slope),
})

/** By how many logits the token at `distance` must lead all others to weigh as much as they do together.
 * @type {(bias: ArrayLike<number>, distance: number) => number} */
export const leadToWin = (bias, distance) => {
  const most = Math.max(...Array.from(bias))
  let others = 0
  for (let n = 0; n < bias.length; n++) if (n !== distance) others += Math.exp(bias[n] - most)
  return Math.log(others) + most - bias[distance]
}
