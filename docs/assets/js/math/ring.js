// Who computes what, and when, as keys walk around a ring of ranks.
// posenc.positions.shard_positions in another language.

/** The rank that holds each token.
 * @param {string} order "contiguous", "zigzag" or "striped" @param {number} tokens @param {number} ranks */
export const owners = (order, tokens, ranks) =>
  Int32Array.from({ length: tokens }, (_, p) => {
    if (order === "striped") return p % ranks
    if (order === "contiguous") return Math.floor((p * ranks) / tokens)
    const chunk = Math.floor((2 * p * ranks) / tokens)
    return Math.min(chunk, 2 * ranks - 1 - chunk)
  })

/** The step in which a rank meets another's keys. @param {number} rank @param {number} other @param {number} ranks */
export const stepOf = (rank, other, ranks) => (rank - other + ranks) % ranks

/** Pairs of queries and keys, a row for each rank and a column for each step.
 * @param {Int32Array} owner @param {number} ranks
 * @param {number} width a query sees its own key and those before, so many in all */
export const pairs = (owner, ranks, width) => {
  const counts = new Int32Array(ranks * ranks)
  owner.forEach((rank, m) => {
    for (let n = Math.max(0, m - width + 1); n <= m; n++) counts[rank * ranks + stepOf(rank, owner[n], ranks)] += 1
  })
  return counts
}

/** How long each step takes, if all wait for the slowest. @param {Int32Array} counts @param {number} ranks */
export const slowest = (counts, ranks) =>
  Array.from({ length: ranks }, (_, step) => Math.max(...counts.filter((_, i) => i % ranks === step)))

/** The pairs of each rank in all. @param {Int32Array} counts @param {number} ranks @returns {number[]} */
export const totals = (counts, ranks) =>
  Array.from({ length: ranks }, (_, rank) => counts.subarray(rank * ranks, (rank + 1) * ranks).reduce((a, b) => a + b))

/** How many keys of other ranks the queries of each rank see.
 * @type {(owner: Int32Array, ranks: number, width: number) => number[]} */
export const fetched = (owner, ranks, width) => {
  const foreign = Array.from({ length: ranks }, () => new Set())
  owner.forEach((rank, m) => {
    for (let n = Math.max(0, m - width + 1); n < m; n++) if (owner[n] !== rank) foreign[rank].add(n)
  })
  return foreign.map(({ size }) => size)
}
