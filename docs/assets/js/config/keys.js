// Keys that are refused: another program's, or misspelled. posenc.models.from_config in another language.

import { isDict } from "./rules.js"
import { closeMatches } from "./close-matches.js"

/** @import { Fields, Rules } from "./rules.js" */
/** @typedef {{ key: string, remedy: string }} Problem */

/** What is wrong with a rope dict. @param {Fields} rope @param {Rules} rules @returns {Problem | null} */
export const problem = (rope, rules) => foreign(rope, rules) ?? misspelled({}, rope, rules)

/** @param {Fields} rope @param {Rules} rules @returns {Problem | null} */
const foreign = (rope, { FOREIGN, NEUTRAL }) => {
  for (const [name, value] of Object.entries(rope)) {
    const key = name.slice(name.lastIndexOf(".") + 1) // those of GGUF start with the architecture
    const neutral = NEUTRAL[key] ?? false
    if (Object.hasOwn(FOREIGN, key) && ![null, neutral, Number(neutral)].includes(value))
      return { key: `${name}, ${FOREIGN[key]} key`, remedy: "posenc.plan reads other formats" }
  }
  return null
}

/** A key that is nearly a known one, or not known inside a rope dict.
 * @type {(fields: Fields, inside: Fields, rules: Rules) => Problem | null} */
export const misspelled = (fields, inside, { ROPE_KEYS, TOP_KEYS, ALIKE, ALIKE_INSIDE }) => {
  const known = [...ROPE_KEYS, ...TOP_KEYS]
  const spellings = new Map(known.map((key) => [key.replaceAll("_", ""), key]))
  const unknown = Object.keys({ ...fields, ...inside }).filter((key) => !known.includes(key))
  for (const key of unknown.sort()) {
    const cutoff = key in inside ? ALIKE_INSIDE : ALIKE
    const [near] = closeMatches(key.toLowerCase().replace(/[_-]/g, ""), [...spellings.keys()], 1, cutoff)
    if (near) return { key, remedy: `did you mean ${spellings.get(near)}?` }
    const value = inside[key] ?? null
    if (value !== null && !isDict(value)) return { key, remedy: "what it would do is not known" }
  }
  return null
}
