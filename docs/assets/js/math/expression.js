// What a reader types as an answer: numbers and short formulas such as 2^10, pi/4, ceil(ln(8)/0.1), one or several.

/** @type {Record<string, number>} */
const CONSTANTS = { pi: Math.PI, π: Math.PI, e: Math.E }
/** @type {Record<string, (x: number) => number>} */
const FUNCTIONS = {
  sqrt: Math.sqrt,
  exp: Math.exp,
  ln: Math.log,
  log: Math.log,
  log2: Math.log2,
  log10: Math.log10,
  sin: Math.sin,
  cos: Math.cos,
  tan: Math.tan,
  asin: Math.asin,
  acos: Math.acos,
  atan: Math.atan,
  abs: Math.abs,
  floor: Math.floor,
  ceil: Math.ceil,
  round: Math.round,
}
const TOKEN = /\s*(?:(\d[\d_]*\.?\d*(?:e[-+]?\d+)?|\.\d+(?:e[-+]?\d+)?)|([a-zπ]\w*)|(\*\*|[-+*/^(),;√]))/iy
const THOUSANDS = /\d{1,3}(?:,\d{3})+(?!\d|,\d)/g
const MARKS = /** @type {const} */ ([
  [/[−–]/g, "-"],
  [/[×·]/g, "*"],
  [/÷/g, "/"],
])

/** @param {string} text @returns {string[]} */
const tokens = (text) => {
  const found = []
  TOKEN.lastIndex = 0
  while (text.slice(TOKEN.lastIndex).trim()) {
    const match = TOKEN.exec(text)
    if (!match) throw new SyntaxError(text)
    found.push(match[1] ?? match[2] ?? match[3])
  }
  return found
}

class Reader {
  /** @param {string[]} words */
  constructor(words) {
    this.words = words
    this.at = 0
  }

  /** @param {string[]} words */
  takes(...words) {
    return words.includes(this.words[this.at] ?? "") ? this.words[this.at++] : ""
  }

  /** @returns {number} */
  sum() {
    let value = this.product()
    for (let sign = this.takes("+", "-"); sign; sign = this.takes("+", "-"))
      value += (sign === "+" ? 1 : -1) * this.product()
    return value
  }

  /** @returns {number} */
  product() {
    let value = this.signed()
    for (let mark = this.takes("*", "/"); mark; mark = this.takes("*", "/"))
      value = mark === "*" ? value * this.signed() : value / this.signed()
    return value
  }

  /** @returns {number} */
  signed() {
    const sign = this.takes("+", "-")
    if (sign) return (sign === "+" ? 1 : -1) * this.signed()
    const base = this.unit()
    return this.takes("^", "**") ? base ** this.signed() : base
  }

  /** @returns {number} */
  unit() {
    const word = this.words[this.at++] ?? ""
    if (word === "√") return Math.sqrt(this.unit())
    if (word === "(") return this.closed(this.sum())
    const name = word.toLowerCase()
    if (Object.hasOwn(CONSTANTS, name)) return CONSTANTS[name]
    if (Object.hasOwn(FUNCTIONS, name)) {
      if (!this.takes("(")) throw new SyntaxError(word)
      return this.closed(FUNCTIONS[name](this.sum()))
    }
    if (!/^[\d.]/.test(word)) throw new SyntaxError(word)
    return Number(word.replaceAll("_", ""))
  }

  /** @param {number} value */
  closed(value) {
    if (!this.takes(")")) throw new SyntaxError(")")
    return value
  }
}

/** The numbers of a text, parted by commas, semicolons or spaces; null where it is none.
 * @param {string} text @returns {number[] | null} */
export const numbersOf = (text) => {
  let plain = text
    .trim()
    .replace(/^\[(.*)\]$/s, "$1")
    .trim()
  for (const [mark, sign] of MARKS) plain = plain.replace(mark, sign)
  if (!plain) return null
  // The comma of 1,000 parts nothing where no other does, or where a space follows those that do.
  const others = plain.replace(THOUSANDS, "")
  if (!/[,;]/.test(others) || /[,;]\s/.test(others)) plain = plain.replace(THOUSANDS, (n) => n.replaceAll(",", ""))
  const bare = /^-?[\d.e]+(?:\s+-?[\d.e]+)+$/i.test(plain)
  try {
    return (bare ? plain.split(/\s+/) : parts(plain)).map((part) => {
      const reader = new Reader(tokens(part))
      const value = reader.sum()
      if (reader.at < reader.words.length) throw new SyntaxError(part)
      return value
    })
  } catch {
    return null
  }
}

/** @param {string} text */
const parts = (text) => {
  const plain = text.replace(/^\((.*[,;].*)\)$/s, "$1")
  return plain.split(/\s*[,;]\s*/)
}
