// Heads of which only a part turns: frequencies for all pairs, 0 for those that stand still.

import { frequencies } from "./waves.js"

/** Partial rotation: a share of the channels turns, as if the head were that narrow.
 * @type {(dim: number, share: number, base: number) => Float64Array} */
export const partial = (dim, share, base) => {
  const theta = new Float64Array(dim / 2)
  theta.set(frequencies(2 * Math.floor((share * dim) / 2), base))
  return theta
}

/** The mean over all whole distances from `first` to `last` of cos(theta · distance), averaged over the pairs.
 * @param {ArrayLike<number>} theta each below a turn @param {number} first @param {number} last */
export const meanMatch = (theta, first, last) => {
  const count = last - first + 1
  let sum = 0
  for (let i = 0; i < theta.length; i++) {
    const half = theta[i] / 2
    const terms = half ? (Math.sin(count * half) / Math.sin(half)) * Math.cos((first + last) * half) : count
    sum += terms / count
  }
  return sum / theta.length
}
