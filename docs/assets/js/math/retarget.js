// One hand for each frequency: how long it is, and where it stands at distance 0. A score is what they reach upward.

import { softplus } from "./pope.js"

/** @typedef {{ size: Float64Array, start: Float64Array }} Hands */

/** In RoPE, with pairs (i, i + d/2), two contents set length and start.
 * @type {(q: ArrayLike<number>, k: ArrayLike<number>) => Hands} */
export const ofPairs = (q, k) => {
  const half = q.length / 2
  const [size, start] = [new Float64Array(half), new Float64Array(half)]
  for (let i = 0; i < half; i++) {
    size[i] = Math.hypot(q[i], q[i + half]) * Math.hypot(k[i], k[i + half])
    start[i] = Math.atan2(q[i + half], q[i]) - Math.atan2(k[i + half], k[i])
  }
  return { size, start }
}

/** In PoPE contents set the length, and the phase alone the start.
 * @type {(q: ArrayLike<number>, k: ArrayLike<number>, phase: ArrayLike<number>) => Hands} */
export const ofChannels = (q, k, phase) => ({
  size: Float64Array.from(phase, (_, c) => softplus(q[c]) * softplus(k[c])),
  start: Float64Array.from(phase, (delta) => 0 - delta),
})

/** @param {Hands} hands @param {ArrayLike<number>} theta @param {number} distance @returns {Float64Array} */
export const turned = ({ start }, theta, distance) => start.map((angle, c) => angle + theta[c] * distance)

/** The score as a share of the most that hands of these lengths can reach.
 * @type {(hands: Hands, theta: ArrayLike<number>, distance: number) => number} */
export const agreement = ({ size, start }, theta, distance) => {
  let [sum, most] = [0, 0]
  for (let c = 0; c < size.length; c++) {
    sum += size[c] * Math.cos(start[c] + theta[c] * distance)
    most += size[c]
  }
  return sum / most
}

/** For each pair of contents the distance from 0 to `reach` - 1 with the highest score, if all seem `nearer` by so
 * much.
 * @type {(many: Hands[], theta: ArrayLike<number>, nearer: number, reach: number) => Int32Array} */
export const bestDistances = (many, theta, nearer, reach) => {
  const count = theta.length
  const angles = Float64Array.from(
    { length: reach * count },
    (_, i) => theta[i % count] * (Math.floor(i / count) - nearer),
  )
  const [cosine, sine] = [angles.map(Math.cos), angles.map(Math.sin)]
  return Int32Array.from(many, ({ size, start }) => {
    const along = size.map((length, c) => length * Math.cos(start[c]))
    const aside = size.map((length, c) => length * Math.sin(start[c]))
    let [best, highest] = [0, -Infinity]
    for (let far = 0; far < reach; far++) {
      let sum = 0
      for (let c = 0, i = far * count; c < count; c++, i++) sum += along[c] * cosine[i] - aside[c] * sine[i]
      if (sum > highest) [best, highest] = [far, sum]
    }
    return best
  })
}
