// The steps of one generator of two channels, from a turn to a shear and beyond.

/** How often channel 1 gets channel 1 and channel 2 after `steps` steps of theta (0, 1; -c, 0): the first row of the
 * exponential.
 * @type {(theta: number, c: number, steps: number) => [number, number]} */
export const reached = (theta, c, steps) => {
  const rate = theta * Math.sqrt(Math.abs(c))
  if (rate === 0) return [1, theta * steps]
  const far = rate * steps
  const [even, odd] = c > 0 ? [Math.cos(far), Math.sin(far)] : [Math.cosh(far), Math.sinh(far)]
  return [even, (theta / rate) * odd]
}

/** Where a key is after `steps` steps: its two channels.
 * @type {(theta: number, c: number, key: [number, number], steps: number) => [number, number]} */
export const walked = (theta, c, key, steps) => {
  const [stay, come] = reached(theta, c, steps)
  return [stay * key[0] + come * key[1], stay * key[1] - c * come * key[0]]
}
