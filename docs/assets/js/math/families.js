// Curves of bias over a text of equal tokens: what each doubling of the distance gets.

/** @import { FireHead } from "./biases.js" */

/** The shares of the distances 0, 1, 2-3, 4-7, 8-15, ... @param {ArrayLike<number>} weights the nearest first */
export const octaves = (weights) => {
  const shares = [weights[0]]
  for (let n = 1; n < weights.length; n++) {
    const octave = 1 + Math.floor(Math.log2(n))
    shares[octave] = (shares[octave] ?? 0) + weights[n]
  }
  return shares
}

/** FIRE with a single hidden unit: on texts up to `threshold` it is KERPLE's logarithm.
 * @type {(r1: number, r2: number, threshold: number) => FireHead} */
export const fireAsKerple = (r1, r2, threshold) => ({
  c: r2,
  multiplier: 1,
  threshold,
  eps: 0,
  hidden: [1],
  hiddenBias: [0],
  out: [-r1 * Math.log1p(r2 * threshold)],
  outBias: 0,
})

/** @param {number} x @param {FireHead} head */
const psi = (x, { c }) => Math.log1p(Math.abs(c) * x)

/** How far a query at `place` must be able to look, at least. @type {(place: number, head: FireHead) => number} */
const reach = (place, { multiplier, threshold }) => Math.max(Math.abs(multiplier) * threshold, place)

/** The distance that has at place `to` the share that `distance` has at place `from`.
 * @type {(distance: number, from: number, to: number, head: FireHead) => number} */
export const sameShare = (distance, from, to, head) =>
  Math.expm1((psi(distance, head) * psi(reach(to, head), head)) / psi(reach(from, head), head)) / Math.abs(head.c)

/** FIRE with a larger threshold and its network rescaled: up to the old threshold nothing changes.
 * @type {(head: FireHead, threshold: number) => FireHead} */
export const nailed = (head, threshold) => {
  const longer = { ...head, multiplier: 1, threshold }
  const factor = (psi(reach(0, longer), head) + head.eps) / (psi(reach(0, head), head) + head.eps)
  return { ...longer, hidden: Array.from(head.hidden, (weight) => weight * factor) }
}
