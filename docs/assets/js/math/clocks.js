// Digits and clock hands: two ways to write a position.

/** Binary digit i of a whole position. @param {number} p @param {number} i */
export const bit = (p, i) => Math.floor(p / 2 ** i) % 2

/** How many binary digits differ between two whole positions. @param {number} p @param {number} q */
export const flips = (p, q) => {
  let count = 0
  for (let both = p ^ q; both; both >>>= 1) count += both & 1
  return count
}

/** How far the code of bits moves from a whole position to another. @param {number} p @param {number} q */
export const leap = (p, q) => Math.sqrt(flips(p, q))

/** How far the code of hands moves from a position to the next, wherever that is. @param {ArrayLike<number>} theta */
export const stride = (theta) => Math.hypot(...Array.from(theta, (t) => 2 * Math.sin(t / 2)))
