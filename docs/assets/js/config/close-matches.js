// Names that are much alike. Python's difflib.get_close_matches in another language.

/** The names most like a word, best first. @param {string} word @param {string[]} names @param {number} most how many @param {number} least how much alike, of 1 @returns {string[]} */
export const nearest = (word, names, most, least) =>
  names
    .filter((name) => 2 * Math.min(name.length, word.length) >= least * (name.length + word.length))
    .map((name) => ({ name, alike: (2 * common(name, word)) / (name.length + word.length) }))
    .filter(({ alike }) => alike >= least)
    .sort((a, b) => b.alike - a.alike || (a.name < b.name ? 1 : -1))
    .slice(0, most)
    .map(({ name }) => name)

/** How many letters two words share in order: the longest piece first, then what is left and right of it. @param {string} a @param {string} b @returns {number} */
const common = (a, b) => {
  let [size, atA, atB] = [0, 0, 0]
  for (let i = 0; i < a.length; i++)
    for (let j = 0; j < b.length; j++) {
      let n = 0
      while (i + n < a.length && j + n < b.length && a[i + n] === b[j + n]) n++
      if (n > size) [size, atA, atB] = [n, i, j]
    }
  if (!size) return 0
  return size + common(a.slice(0, atA), b.slice(0, atB)) + common(a.slice(atA + size), b.slice(atB + size))
}
