// The search, in a thread of its own. The theme draws its window and sends numbered messages: 0 sets it up, 1 answers
// that it is ready, 2 asks, 3 answers. The library and the index are fetched with the first question.

/** @typedef {{ location: string, title: string, text: string, more?: string, keywords?: string[] }} Entry
 *  a part of a page under its heading; `more` are words of a long text that `text` is the beginning of */
/** @typedef {{ id: number, score: number, terms: string[], queryTerms: string[], match: Record<string, string[]> }} Hit
 *  `terms` are those of the entry, `queryTerms` those of the query that they meet */
/** @typedef {{ addAll: (documents: object[]) => void, search: (query: string, options: object) => Hit[] }} Engine */
/** @typedef {{ entries: Entry[], engine: Engine, stems: Set<string>, completions: Set<string> }} Index */

const COMPOUND = /[\p{L}\p{N}]+(?:[-_.][\p{L}\p{N}]+)+/gu
const WORD = /√|\d+(?:,\d{3})+(?!\d)|[\p{L}\p{N}]+/gu
const COMMON = new Set(
  (
    "a about after an and any are as at be by can do does for from get has have how i if in into is it its me my of " +
    "on or should so than that the their then there these this to use used using versus vs was what when where which " +
    "who why will with you your"
  ).split(" "),
)
const BOOST = { page: 3, keywords: 6, title: 3, text: 2 }
const PASSAGE = 34 // words
const PAGES = 20 // shown at most
const SECTIONS = 6 // of a page at most
const RANKED = 3 // the best sections of a page, whose scores together are its own

/** @param {string} word */
const stem = (word) =>
  word.length < 4 || /\d/.test(word)
    ? word
    : word
        .replace(/(?<=..)(?:ies|y)$/, "i")
        .replace(/(?<=s|x|z|ch|sh)es$|(?<=.[^aisu])s$/, "")
        .replace(/(?<=...)(?:ional|ion|ing|ed|er|al|e)$/, "")
        .replace(/([^aeiou])\1$/, "$1")

/** @param {string} text */
const words = (text) => text.match(WORD) ?? []

// What is written in parts, such as rope_scaling, counts as a whole too; first, since a query's last term is a beginning.
/** @param {string} text */
const tokens = (text) => [...(text.match(COMPOUND) ?? []).map((name) => name.replace(/[-_.]/g, "")), ...words(text)]

// What the index holds of a word: its stem. 10,000 is 10000.
/** @param {string} word */
const term = (word) => {
  const plain = word.toLowerCase().replaceAll(",", "").replace("√", "sqrt")
  return COMMON.has(plain) ? null : stem(plain)
}

/** @param {string} location */
const pageOf = (location) => location.split("#")[0]

/** @param {Entry[]} entries @param {new (options: object) => Engine} MiniSearch @returns {Index} */
const indexed = (entries, MiniSearch) => {
  const stems = new Set()
  const processTerm = (/** @type {string} */ word) => {
    const known = term(word)
    if (known) stems.add(known)
    return known
  }
  const engine = new MiniSearch({ fields: Object.keys(BOOST), tokenize: tokens, processTerm })
  const pages = new Map(entries.toReversed().map((entry) => [pageOf(entry.location), entry])) // the first of each
  const documents = entries.map(({ location, title, text, more = "" }, id) => {
    const page = pages.get(pageOf(location))
    return { id, page: page?.title, keywords: page?.keywords?.join(" "), title, text: `${text} ${more}` }
  })
  engine.addAll(documents)
  const names = entries.flatMap(({ title, keywords = [] }) => [title, ...keywords])
  return { entries, engine, stems, completions: new Set(names.flatMap(words).map((word) => word.toLowerCase())) }
}

/** @param {string} text */
const escaped = (text) => text.replace(/[&<>]/g, (sign) => `&#${sign.charCodeAt(0)};`)

/** @param {string} text @param {Set<string | null>} terms */
const marked = (text, terms) => {
  let [html, at] = ["", 0]
  for (const match of text.matchAll(WORD)) {
    if (!terms.has(term(match[0]))) continue
    html += `${escaped(text.slice(at, match.index))}<mark>${escaped(match[0])}</mark>`
    at = match.index + match[0].length
  }
  return html + escaped(text.slice(at))
}

// The stretch of a text in which most of the terms stand.
/** @param {string} text @param {Set<string | null>} terms */
const passage = (text, terms) => {
  const all = text.split(/\s+/).filter(Boolean)
  const matches = all.map((word) =>
    words(word)
      .map(term)
      .filter((stem) => terms.has(stem)),
  )
  let [begin, most] = [0, 0]
  for (const n of matches.keys()) {
    if (!matches[n].length) continue
    const count = new Set(matches.slice(n, n + PASSAGE - 6).flat()).size
    if (count > most) [begin, most] = [Math.max(0, n - 6), count]
  }
  const end = begin + PASSAGE
  return `${begin ? "… " : ""}${marked(all.slice(begin, end).join(" "), terms)}${end < all.length ? " …" : ""}`
}

/** @param {Index} index @param {string} query @param {Hit} hit */
const shown = ({ entries }, query, { id, score, terms, queryTerms }) => {
  const { location, title, text } = entries[id]
  const wanted = new Set(terms)
  const asked = words(query).filter((word) => term(word))
  return {
    location,
    title: marked(title, wanted),
    text: passage(text, wanted),
    score,
    terms: Object.fromEntries(asked.map((word) => [word, queryTerms.includes(term(word) ?? "")])),
  }
}

// The sections of a page that match by themselves, and always the page, below which the window shows them.
/** @param {Index} index @param {string} query @param {Hit[]} hits of a page, the best first */
const shownPage = (index, query, hits) => {
  const page = pageOf(index.entries[hits[0].id].location)
  const id = index.entries.findIndex(({ location }) => location === page)
  const own = (/** @type {Hit} */ { match }) =>
    Object.values(match).some((fields) => fields.includes("title") || fields.includes("text"))
  const sections = hits.filter(own).slice(0, SECTIONS)
  const whole = hits.find((hit) => hit.id === id) ?? { id, score: 0, terms: [], queryTerms: [], match: {} }
  return (sections.includes(whole) ? sections : [...sections, whole]).map((hit) => shown(index, query, hit))
}

/** @param {Index} index @param {string} query */
const answer = (index, query) => {
  const hits = index.engine.search(query, {
    boost: BOOST,
    processTerm: term,
    // Only what stands nowhere is a word that is not written to its end, or a slip: of "yarn", "warn" is none.
    prefix: (/** @type {string} */ stem, /** @type {number} */ n, /** @type {string[]} */ all) =>
      n === all.length - 1 && !index.stems.has(stem),
    fuzzy: (/** @type {string} */ stem) => (stem.length > 3 && !index.stems.has(stem) ? 0.15 : 0),
  })
  /** @type {Map<string, Hit[]>} */
  const pages = new Map()
  for (const hit of hits) {
    const page = pageOf(index.entries[hit.id].location)
    pages.set(page, [...(pages.get(page) ?? []), hit])
  }
  const score = (/** @type {Hit[]} */ page) => page.slice(0, RANKED).reduce((sum, hit) => sum + hit.score, 0)
  const ranked = [...pages.values()].sort((a, b) => score(b) - score(a)).slice(0, PAGES)
  const begun = query.toLowerCase().match(/[\p{L}\p{N}]+$/u)?.[0]
  const completed = begun && [...index.completions].find((word) => word.startsWith(begun))
  return { items: ranked.map((page) => shownPage(index, query, page)), suggest: completed ? [completed] : [] }
}

/** @type {any} */
const worker = globalThis
/** @type {Promise<Index> | null} */
let index = null
const load = async () => {
  try {
    const reply = await fetch(new URL("../../search/index.json", location.href))
    const { docs } = await reply.json()
    worker.importScripts(new URL("../vendor/minisearch.js", location.href).href)
    return indexed(docs, worker.MiniSearch)
  } catch (error) {
    index = null // and try again with the next letter
    throw error
  }
}

/** @param {string} query */
const results = async (query) => {
  if (!query.trim()) return { items: [] }
  index ??= load()
  return answer(await index, query)
}

addEventListener("message", async ({ data: { type, data } }) => {
  if (type === 0) postMessage({ type: 1 })
  else if (type === 2) postMessage({ type: 3, data: await results(data) })
})
