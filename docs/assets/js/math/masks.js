// Who may see whom, and what a stack of such layers leaves visible: P M Pᵀ = M, as far as one output can look.

/** A mask, row by row: may query m see key n?
 * @param {string} kind "full", "causal", "sliding" of `size` or "prefix" of `size` @param {number} length
 * @param {number} [size] */
export const mask = (kind, length, size = 1) =>
  Array.from({ length: length * length }, (_, cell) => {
    const [m, n] = [Math.floor(cell / length), cell % length]
    if (kind === "sliding") return n <= m && m - n < size
    if (kind === "prefix") return n <= Math.max(m, size - 1)
    return kind === "full" || n <= m
  })

/** How many layers each seat is away from `seat`: what it says has come that far.
 * @type {(seen: boolean[], length: number, seat: number) => number[]} */
export const hops = (visible, length, seat) => {
  const far = new Array(length).fill(Infinity)
  far[seat] = 0
  for (const queue = [seat]; queue.length;) {
    const m = /** @type {number} */ (queue.shift())
    for (let n = 0; n < length; n++)
      if (visible[m * length + n] && far[n] === Infinity) {
        far[n] = far[m] + 1
        queue.push(n)
      }
  }
  return far
}

/** What the output at `seat` knows of different tokens after `depth` layers in general position, where each token sees
 * itself. `others` are the seats that reach it, `orders` how many orders their tokens have, `distinct` how many of
 * these it tells apart. A seat that no unnoticed shuffle moves is alone in its bag; `bags[n]` is the first seat that n
 * can be taken for.
 * @param {boolean[]} seen @param {number} length @param {number} seat @param {number} depth */
export const view = (seen, length, seat, depth) => {
  const far = hops(seen, length, seat)
  const others = far.flatMap((steps, n) => (steps > 0 && steps <= depth ? [n] : []))
  const bags = Array.from({ length }, (_, n) => n)
  const to = new Array(length).fill(-1) // a shuffle: seat n takes the token of seat to[n]
  to[seat] = seat
  let unnoticed = 0
  // The view of a seat is read if it is less than `depth` layers away: then the shuffle must leave it as it is.
  const unchanged = (/** @type {number} */ m, /** @type {number} */ n) =>
    far[m] >= depth || seen[m * length + n] === seen[to[m] * length + to[n]]
  const place = (/** @type {number} */ done) => {
    if (done === others.length) {
      unnoticed += 1
      for (const n of others) bags[n] = Math.min(bags[n], to[n])
      return
    }
    const n = others[done]
    for (const image of others) {
      if (to.includes(image)) continue
      to[n] = image
      if ([seat, ...others.slice(0, done)].every((other) => unchanged(n, other) && unchanged(other, n))) place(done + 1)
    }
    to[n] = -1
  }
  place(0)
  const orders = others.reduce((product, _, i) => product * (i + 1), 1)
  return { others, orders, distinct: orders / unnoticed, bags }
}
