// A configuration with what the code of its model type knows. posenc.reading.kinds in another language.

/** @typedef {Record<string, any>} Words */

/** What a configuration says comes first, then what its code has as default. */
export class Config {
  /** @param {Words} said @param {string} modelType @param {Words} kind */
  constructor(said, modelType, kind) {
    this.said = said
    this.modelType = modelType
    this.kind = kind
  }

  /** @param {string} name @param {any} [otherwise] */
  get(name, otherwise = null) {
    for (const spelled of [name, this.kind.names?.[name] ?? name]) if (spelled in this.said) return this.said[spelled]
    const defaults = this.kind.defaults ?? {}
    return name in defaults ? defaults[name] : otherwise
  }

  /** @param {string} name @returns {number} */
  number(name) {
    const found = this.get(name)
    if (Number.isInteger(found) && found > 0) return found
    throw new Error(
      `plan: ${name} must be a positive integer in a config of ${this.modelType}, got ${shown(found)}; add it`,
    )
  }
}

/** A value as Python writes it. @param {any} value @returns {string} */
export const shown = (value) => {
  if (value === null || value === undefined) return "None"
  if (typeof value === "boolean") return value ? "True" : "False"
  if (typeof value === "string") return `'${value}'`
  if (Array.isArray(value)) return `[${value.map(shown).join(", ")}]`
  return typeof value === "object" ? JSON.stringify(value) : String(value)
}

/** @param {any} value @returns {value is Words} */
export const isDict = (value) => value !== null && typeof value === "object" && !Array.isArray(value)

/** Whether Python would take a value for true. @param {any} value */
export const truth = (value) =>
  Boolean(Array.isArray(value) ? value.length : isDict(value) ? Object.keys(value).length : value)
