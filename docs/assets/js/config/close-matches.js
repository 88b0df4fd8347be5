// Names that are much alike. Python's difflib.get_close_matches in another language.

/** The names most like one, best first.
 * @param {string} name @param {string[]} names @param {number} count how many at most
 * @param {number} cutoff how much alike at least, of 1 @returns {string[]} */
export const closeMatches = (name, names, count, cutoff) =>
  names
    .filter((other) => 2 * Math.min(other.length, name.length) >= cutoff * (other.length + name.length))
    .map((other) => ({ other, ratio: (2 * common(other, name)) / (other.length + name.length) }))
    .filter(({ ratio }) => ratio >= cutoff)
    .sort((a, b) => b.ratio - a.ratio || (a.other < b.other ? 1 : -1))
    .slice(0, count)
    .map(({ other }) => other)

/** How many letters two names share in order: the longest piece first, then what is left and right of it.
 * @type {(a: string, b: string) => number} */
const common = (a, b) => {
  let [size, startA, startB] = [0, 0, 0]
  for (let i = 0; i < a.length; i++)
    for (let j = 0; j < b.length; j++) {
      let n = 0
      while (i + n < a.length && j + n < b.length && a[i + n] === b[j + n]) n++
      if (n > size) [size, startA, startB] = [n, i, j]
    }
  if (!size) return 0
  return size + common(a.slice(0, startA), b.slice(0, startB)) + common(a.slice(startA + size), b.slice(startB + size))
}
