// Where a score over distance is highest.

const TURN = 2 * Math.PI

/** The same direction, from -π up to π. @param {number} angle */
export const wrap = (angle) => angle - TURN * Math.floor(angle / TURN + 0.5)

/** The angle from a key's pair of numbers to a query's: what RoPE adds to the angle of their positions.
 * @type {(q: ArrayLike<number>, k: ArrayLike<number>) => number} */
export const contentAngle = (q, k) => wrap(Math.atan2(q[1], q[0]) - Math.atan2(k[1], k[0]))

/** The distance closest to 0 at which cos(distance theta + start) is 1. @param {number} theta @param {number} start */
export const crest = (theta, start) => -wrap(start) / theta || 0

/** The place between `low` and `high` where a smooth score is highest, to about a millionth.
 * @type {(score: (place: number) => number, low: number, high: number) => number} */
export const summit = (score, low, high) => {
  const step = (high - low) / 400
  let best = low
  for (let i = 1; i <= 400; i++) if (score(low + i * step) > score(best)) best = low + i * step
  let [a, b] = [Math.max(low, best - step), Math.min(high, best + step)]
  while (b - a > 1e-6) {
    const third = (b - a) / 3
    score(a + third) < score(b - third) ? (a += third) : (b -= third)
  }
  return (a + b) / 2
}
