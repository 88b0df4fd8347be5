// What is left of tokens whose order is lost: how often each occurs.

/** The share of `n` random tokens, of so many kinds, that the commonest kind is expected to have: E[largest count] / n.
 * @type {(n: number, kinds: number) => number} */
export const largestShare = (n, kinds) => {
  const chance = [1] // that a kind occurs i times, but for a factor: the n / kinds expected keep numbers in range
  for (let i = 1; i <= n; i++) chance.push((chance[i - 1] * n) / kinds / i)
  const atMost = (/** @type {number} */ c) => {
    let bags = chance.map((_, i) => Number(i === 0)) // of i tokens, of the kinds so far
    for (let kind = 0; kind < kinds; kind++) {
      bags = bags.map((_, i) => {
        let sum = 0
        for (let j = 0; j <= Math.min(i, c); j++) sum += bags[i - j] * chance[j]
        return sum
      })
    }
    return bags[n]
  }
  const all = atMost(n)
  let sum = 0
  for (let c = 0, more = 1; c < n && more > 1e-15; c++) sum += more = 1 - atMost(c) / all // that some count is above c
  return sum / n
}
