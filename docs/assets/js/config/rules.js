// What Python hands over of posenc.config: tables, facts of every model type, and sentences with blanks to fill.

/** @typedef {Record<string, any>} Fields */
/** @typedef {{ formula: string, needed: string[] }} RopeType */
/**
 * posenc.config.rules.rules(): the tables stand under their names in Python.
 * @typedef {object} Rules
 * @property {Record<string, Fields>} model_types
 * @property {Record<string, string>} sentences
 * @property {Record<string, RopeType>} ROPE_TYPES
 * @property {Record<string, string>} ALIASES
 * @property {string[]} BASE_KEYS
 * @property {string[]} SHARE_KEYS
 * @property {string[]} ROPE_KEYS
 * @property {string[]} TOP_KEYS
 * @property {number} ALIKE
 * @property {number} ALIKE_INSIDE
 * @property {Record<string, string>} FOREIGN
 * @property {Fields} NEUTRAL
 * @property {Record<string, Partial<Record<"all" | "any" | "none" | "ending", string[]>>>} FORMATS
 * @property {string[]} VLLM_KEYS
 * @property {Record<string, string>} VLLM_ROPE_TYPES
 * @property {Record<string, string>} RENAMED
 * @property {string[]} WITHOUT_ATTENTION
 * @property {Record<string, string>} WINDOW_KEYS
 * @property {string[]} COMMON_TYPES
 * @property {number} MOST_LAYERS
 * @property {string[]} FROM_TRAINED
 * @property {Record<string, string>} PER_LAYER
 * @property {Record<string, [number, number]>} QUERY_SCALES
 */

/** @type {Record<string, (value: any) => string>} how Python's str.format writes what stands in a blank */
const FORMS = {
  "": (value) => (typeof value === "string" ? value : repr(value)),
  "!r": (value) => repr(value),
  ":,": (value) => withCommas(value),
  ":,.0f": (value) => withCommas(value),
  ":,.10g": (value) => withCommas(value),
  ":g": (value) => String(Number(value.toPrecision(6))),
}

/** A sentence with its blanks filled, as by str.format. @param {string} sentence @param {Fields} values */
export const filled = (sentence, values) =>
  sentence.replace(/\{(\w+)([:!][^}]*)?\}/g, (_, name, form = "") => FORMS[form](values[name]))

/** A value as Python writes it. @param {any} value @returns {string} */
export const repr = (value) => {
  if (value === null || value === undefined) return "None"
  if (typeof value === "boolean") return value ? "True" : "False"
  if (typeof value === "string") return `'${value}'`
  if (Array.isArray(value)) return `[${value.map(repr).join(", ")}]`
  if (!isDict(value)) return String(value)
  return `{${Object.entries(value)
    .map(([key, item]) => `${repr(key)}: ${repr(item)}`)
    .join(", ")}}`
}

/** A number, rounded, with its thousands apart. @param {number} value */
export const withCommas = (value) => String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ",")

/** @param {any} value @returns {value is Fields} */
export const isDict = (value) => value !== null && typeof value === "object" && !Array.isArray(value)

/** Whether Python would take a value for true. @param {any} value */
export const isTruthy = (value) =>
  Boolean(Array.isArray(value) ? value.length : isDict(value) ? Object.keys(value).length : value)
