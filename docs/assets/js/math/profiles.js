// Curves over the distance, mixed by a query. posenc.score.profiles in another language.

/** What a query adds at each distance. @param {ArrayLike<number>} states @param {number[][]} bank a curve each */
export const mix = (states, bank) =>
  bank[0].map((_, distance) => bank.reduce((sum, curve, i) => sum + states[i] * curve[distance], 0))

/** The distances that some mix of two curves puts above all others: the corners of their points, in the order in which
 * a turning query meets them.
 * @param {number[][]} bank two curves @param {number} turns how many directions are tried */
export const corners = (bank, turns = 3600) => {
  /** @type {Set<number>} */
  const winners = new Set()
  for (let turn = 0; turn < turns; turn++) {
    const angle = (2 * Math.PI * turn) / turns
    const curve = mix([Math.cos(angle), Math.sin(angle)], bank)
    winners.add(curve.indexOf(Math.max(...curve)))
  }
  return [...winners]
}
