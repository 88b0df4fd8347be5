// How far a choice may be behind the best, if any of some questions may be asked.

/** Of each encoding how far it is behind the best at each question.
 * @param {number[][]} shares of each encoding the right answers, question by question */
export const behind = (shares) => {
  const best = shares[0].map((_, q) => Math.max(...shares.map((row) => row[q])))
  return shares.map((row) => row.map((share, q) => best[q] - share))
}

/** The question at which a row is furthest behind, and by how much; −1 if none is asked.
 * @param {number[]} row @param {boolean[]} asked */
export const regret = (row, asked) =>
  row.reduce((worst, by, q) => (asked[q] && by > worst.by ? { by, q } : worst), {
    by: asked.some(Boolean) ? -1 : 0,
    q: -1,
  })

/** The numbers of the rows, the least regret first; those that are not `open` stand behind.
 * @type {(regrets: number[], open: boolean[]) => number[]} */
export const ranked = (regrets, open) =>
  regrets.map((_, i) => i).sort((a, b) => Number(open[b]) - Number(open[a]) || regrets[a] - regrets[b])
