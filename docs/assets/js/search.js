// The search, in a thread of its own. The theme draws its window and sends numbered messages: 0 sets it up, 1 answers
// that it is ready, 2 asks, 3 answers. The index is fetched with the first question.

/** @typedef {{ location: string, title: string, text: string, more?: string, keywords?: string[] }} Entry
 *  `more` are words of a long text that `text` is the beginning of */
/** @typedef {Map<string, number>} Counts how often each stem occurs */
/** @typedef {{ entry: Entry, title: Set<string>, text: Counts }} Section a part of a page under its heading */
/** @typedef {{ url: string, sections: Section[], keys: Set<string>, phrases: string[][], all: Set<string> }} Page */
/** @typedef {{ pages: Page[], rarity: Map<string, number>, told: Set<string> }} Index `told` by titles and keywords */
/**
 * A word, and the stems that it meets.
 * @typedef {{
 *   stem: string, word: string, bonus: boolean, found: Counts,
 * }} Asked
 */
/** @typedef {{ section: Section, score: number, met: Set<string> }} Hit */

const CHUNK = /√|[\p{L}\p{N}_]+(?:[-,.](?=[\p{L}\p{N}_])[\p{L}\p{N}_]+)*/gu
const COMMON = new Set(
  (
    "a about after an and any are as at be by can do does for from get has have how i if in into is it its me my of " +
    "on or should so than that the their then there these this to use used using versus vs was what when where which " +
    "who why will with you your"
  ).split(" "),
)
const WEIGHT = { key: 3, page: 2, heading: 2, text: 1, phrase: 2 }
const LIKE = { prefix: 0.6, slip: 0.4 } // a stem that only begins so, or that is spelled nearly so
const PASSAGE = 34 // words
const PAGES = 20 // found at most
const SECTIONS = 6 // of a page at most

/** @param {string} word */
const stem = (word) =>
  word.length < 4 || /\d/.test(word)
    ? word
    : word
        .replace(/(?<=..)(?:ies|y)$/, "i")
        .replace(/(?<=s|x|z|ch|sh)es$|(?<=.[^aisu])s$/, "")
        .replace(/(?<=...)(?:ional|ion|ing|ed|er|al|e)$/, "")
        .replace(/([^aeiou])\1$/, "$1")

// What is written in parts is known by each, and as a whole: rope_scaling, M-RoPE, FlashAttention. 10,000 is 10000.
/** @param {string} chunk */
const words = (chunk) => {
  if (chunk === "√") return ["sqrt"]
  const parts = chunk
    .replace(/(?<=[a-z]{2})(?=[A-Z][a-z]{2})/g, "_")
    .toLowerCase()
    .replace(/(?<=\d),(?=\d{3}(?!\d))/g, "")
    .split(/[-,._]+/)
    .filter(Boolean)
  return parts.length > 1 ? [...parts, parts.join("")] : parts
}

/** @param {string} text */
const stems = (text) => (text.match(CHUNK) ?? []).flatMap(words).map(stem)

/** @param {string[]} found @returns {Counts} */
const counted = (found) => {
  const counts = new Map()
  for (const one of found) counts.set(one, (counts.get(one) ?? 0) + 1)
  return counts
}

/** @param {Entry[]} entries @returns {Index} */
const indexed = (entries) => {
  /** @type {Map<string, Page>} */
  const pages = new Map()
  for (const entry of entries) {
    const [url] = entry.location.split("#")
    const page = pages.get(url) ?? { url, sections: [], keys: new Set(), phrases: [], all: new Set() }
    pages.set(url, page)
    const section = {
      entry,
      title: new Set(stems(entry.title)),
      text: counted(stems(`${entry.text} ${entry.more ?? ""}`)),
    }
    page.sections.push(section)
    page.phrases.push(...(entry.keywords ?? []).flatMap((key) => key.split(", ")).map(stems))
    page.keys = new Set(page.phrases.flat())
    for (const one of [...section.title, ...section.text.keys(), ...page.keys]) page.all.add(one)
  }
  const spread = counted([...pages.values()].flatMap((page) => [...page.all]))
  const rarity = new Map([...spread].map(([one, n]) => [one, Math.log(1 + pages.size / n)]))
  const said = entries.flatMap(({ title, keywords }) => [title, ...(keywords ?? [])])
  const told = new Set(said.flatMap((text) => text.match(CHUNK) ?? []).map((word) => word.toLowerCase()))
  return { pages: [...pages.values()], rarity, told }
}

// Whether two words differ by one letter: more, less, another, or two that changed places.
/** @param {string} a @param {string} b */
const slips = (a, b) => {
  if (Math.abs(a.length - b.length) > 1) return false
  let i = 0
  while (i < a.length && a[i] === b[i]) i++
  const [p, q] = [a.slice(i), b.slice(i)]
  return p.slice(1) === q.slice(1) || p === q.slice(1) || p.slice(1) === q || p[1] + p[0] + p.slice(2) === q
}

/** @param {Index} index @param {string} query @returns {Asked[]} */
const asked = (index, query) => {
  const given = (query.match(CHUNK) ?? []).flatMap((chunk) => {
    const parts = words(chunk)
    return parts.map((word, n) => ({ word, stem: stem(word), bonus: n > 0 && n === parts.length - 1 }))
  })
  const telling = given.filter(({ word }) => !COMMON.has(word))
  const kept = new Map((telling.length ? telling : given).map((one) => [one.stem, one]))
  const last = given.at(-1)?.stem
  return [...kept.values()].map((one) => {
    const { stem, word } = one
    const found = new Map(index.rarity.has(stem) ? [[stem, 1]] : [])
    const like = (/** @type {(known: string) => boolean} */ holds, /** @type {number} */ factor) => {
      for (const known of index.rarity.keys()) if (!found.has(known) && holds(known)) found.set(known, factor)
    }
    if (stem === last || !found.size) like((known) => known.startsWith(word) || known.startsWith(stem), LIKE.prefix)
    if (!found.size && stem.length > 3) like((known) => slips(known, stem), LIKE.slip)
    return { ...one, found }
  })
}

/** @param {Page} page @param {Section} section @param {string} one */
const weight = (page, section, one) => {
  const often = section.text.get(one) ?? 0
  return (
    WEIGHT.key * +page.keys.has(one) +
    WEIGHT.page * +page.sections[0].title.has(one) +
    WEIGHT.heading * +(section !== page.sections[0] && section.title.has(one)) +
    (WEIGHT.text * often) / (often + 1)
  )
}

/** @param {Index} index @param {Asked[]} query @param {Page} page @param {Section} section @returns {Hit} */
const hit = (index, query, page, section) => {
  const met = new Set()
  let [sum, matched, whole] = [0, 0, 0]
  for (const { stem, bonus, found } of query) {
    const rarity = index.rarity.get(stem) ?? Math.max(...[...found.keys()].map((k) => index.rarity.get(k) ?? 0), 1)
    const best = Math.max(0, ...[...found].map(([one, factor]) => factor * weight(page, section, one)))
    sum += rarity * best
    if (bonus) continue
    whole += rarity
    if (best) matched += rarity
    if (best) met.add(stem)
  }
  return { section, score: whole ? (sum * matched ** 2) / whole ** 2 : 0, met }
}

// What a page's keywords say in just these words counts once more.
/** @param {Index} index @param {Asked[]} query @param {Page} page */
const phrased = (index, query, page) => {
  const said = new Set(query.flatMap(({ found }) => [...found].filter(([, factor]) => factor === 1).map(([k]) => k)))
  const worth = page.phrases
    .filter((phrase) => phrase.every((one) => said.has(one)))
    .map((phrase) => phrase.reduce((sum, one) => sum + (index.rarity.get(one) ?? 0), 0))
  return WEIGHT.phrase * Math.max(0, ...worth)
}

/** @param {string} text */
const escaped = (text) => text.replace(/[&<>]/g, (sign) => `&#${sign.charCodeAt(0)};`)

/** @param {string} text @param {Set<string>} wanted */
const marked = (text, wanted) => {
  let [html, at] = ["", 0]
  for (const match of text.matchAll(CHUNK)) {
    if (!words(match[0]).some((word) => wanted.has(stem(word)))) continue
    html += `${escaped(text.slice(at, match.index))}<mark>${escaped(match[0])}</mark>`
    at = match.index + match[0].length
  }
  return html + escaped(text.slice(at))
}

// The stretch of a text in which most of what was asked for stands.
/** @param {Index} index @param {string} text @param {Set<string>} wanted */
const passage = (index, text, wanted) => {
  const all = text.split(/\s+/).filter(Boolean)
  const held = all.map((word) => stems(word).filter((one) => wanted.has(one)))
  let [begin, most] = [0, 0]
  for (const [n, here] of held.entries()) {
    if (!here.length) continue
    const near = new Set(held.slice(n, n + PASSAGE - 6).flat())
    const worth = [...near].reduce((sum, one) => sum + (index.rarity.get(one) ?? 0), 0)
    if (worth > most) [begin, most] = [Math.max(0, n - 6), worth]
  }
  const end = begin + PASSAGE
  return `${begin ? "… " : ""}${marked(all.slice(begin, end).join(" "), wanted)}${end < all.length ? " …" : ""}`
}

/** @param {Index} index @param {Asked[]} query @param {Page} page @returns {Hit[]} the best first */
const hits = (index, query, page) => {
  if (!query.some(({ found }) => [...found.keys()].some((one) => page.all.has(one)))) return []
  const more = phrased(index, query, page)
  const found = page.sections.map((section) => hit(index, query, page, section)).filter(({ score }) => score)
  found.sort((a, b) => b.score - a.score)
  // the window opens all that are as good as the first
  for (const [n, one] of found.entries()) one.score += more - n / 1e6
  return found.slice(0, SECTIONS)
}

/** @param {Index} index @param {Asked[]} query @param {Page} page @param {Hit[]} found */
const shown = (index, query, page, found) => {
  const [section] = page.sections
  const whole = found.some((one) => one.section === section) ? found : [...found, { section, score: 0, met: new Set() }]
  const wanted = new Set(query.flatMap((one) => [...one.found.keys()]))
  const parts = query.filter(({ bonus }) => !bonus)
  return whole.map(({ section: { entry }, score, met }) => ({
    location: entry.location,
    title: marked(entry.title, wanted),
    text: passage(index, entry.text, wanted),
    score,
    terms: Object.fromEntries(parts.map(({ stem, word }) => [word, met.has(stem)])),
  }))
}

/** @param {Index} index @param {string} text */
const answer = (index, text) => {
  const query = asked(index, text)
  const found = index.pages.map((page) => ({ page, best: hits(index, query, page) })).filter(({ best }) => best.length)
  found.sort((a, b) => b.best[0].score - a.best[0].score)
  const begun = text.toLowerCase().match(/[\p{L}\p{N}_]+$/u)?.[0]
  const completed = begun && [...index.told].find((word) => word.startsWith(begun))
  return {
    items: found.slice(0, PAGES).map(({ page, best }) => shown(index, query, page, best)),
    suggest: completed ? [completed] : [],
  }
}

/** @type {Promise<Index> | null} */
let known = null
const load = async () => {
  try {
    const reply = await fetch(new URL("../../search/index.json", location.href))
    return indexed((await reply.json()).docs)
  } catch (error) {
    known = null // and try again with the next letter
    throw error
  }
}

/** @param {string} text */
const found = async (text) => {
  if (!text.trim()) return { items: [] }
  known ??= load()
  return answer(await known, text)
}

addEventListener("message", async ({ data: { type, data } }) => {
  if (type === 0) postMessage({ type: 1 })
  else if (type === 2) postMessage({ type: 3, data: await found(data) })
})
