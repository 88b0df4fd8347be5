// What the explorer's parts hand to each other. Types only: no page loads this file.

/** @typedef {Record<string, any>} State every knob's value, by its name */
/** @typedef {{ min: number, max: number, value: number }} Bounds */
/** @typedef {{ dim: number, length: number, steps: number, batch: number, rate: number, seed: number, share: number,
 *   digits: number, table: ArrayLike<number> }} Trained */
/** @typedef {[name: string, says: string, state: State]} Preset of a published model */
/** @typedef {[state: State, row: number, column: number, cell: number, m: number, n: number, score: number]} Point */
/**
 * @typedef {object} PageData what the page passes to the explorer
 * @property {string} version
 * @property {string} words the sentence that stands on the axes first
 * @property {{ query: number, key: number }} away where a reader looks first, in text of numbered positions
 * @property {number} far the farthest distance of a response
 * @property {Record<string, Bounds>} knobs
 * @property {Record<string, string[]>} choices the first is the default
 * @property {Record<string, boolean>} toggles
 * @property {number} std
 * @property {Trained} trained
 * @property {{ beta_fast: number, beta_slow: number, low_freq_factor: number, high_freq_factor: number }} ramps
 * @property {{ divisors: number[], factor: number, original_length: number }} longrope
 * @property {{ width: number, eps: number, multiplier: number }} fire
 * @property {{ reach: number }} xpos fade lengths within which a score is a number that fits
 * @property {Point[]} golden what the package has in a cell of the pattern, and as score of m and n
 * @property {Array<[State, string, string]>} tour
 * @property {Preset[]} models
 * @property {State} [start] what an address without a query shows
 * @property {State} [state]
 * @property {string} [embedded]
 * @property {string[]} [controls]
 */
/**
 * @typedef {object} Knob
 * @property {string} name
 * @property {string} label
 * @property {"choice" | "toggle" | "integer" | "log" | "share" | "text"} kind
 * @property {(state: State) => boolean} when it applies
 * @property {string} help
 * @property {number} [step]
 * @property {boolean} [whole] of a logarithmic knob: integers only
 */
/** @typedef {(m: number, n: number) => [row: number | null, column: number | null]} Reads what of a pattern a pair
 *   takes */
/**
 * `from` is the number of the first column, `start` of the first row.
 *
 * @typedef {{
 *   values: Float64Array, rows: number, columns: number, from: number, start?: number, reads?: Reads, low: number,
 *   high: number,
 * }} Grid
 */
/**
 * @typedef {object} View
 * @property {State} state
 * @property {Grid} pattern
 * @property {Float64Array | null} band the similarity at distances 1 - length … length - 1, if they decide it
 * @property {Float64Array | null} values a picture of every m and n, where it does not, of `side` rows
 * @property {number} side
 * @property {number} low of the similarity
 * @property {number} high
 * @property {number} scale what a score is multiplied by to be a logit
 * @property {Float64Array | null} plain the band without what the encoding changes
 * @property {((distance: number) => number) | null} curve the score at any distance
 * @property {((distance: number) => number) | null} plainCurve
 * @property {Float64Array | null} theta a frequency for each pair
 * @property {Array<[number, number]>} pairs the two columns of each
 * @property {number} far the farthest distance of a response
 * @property {(m: number, n: number) => number} score
 * @property {(m: number, n: number) => number} at the score, or its weight where the view shows attention
 * @property {(m: number) => Float64Array} row of the query m, over keys n
 * @property {(m: number) => Float64Array} weights what attention makes of that row
 * @property {(n: number) => ArrayLike<number>} queryRow
 * @property {(n: number) => ArrayLike<number>} keyRow
 */
/**
 * @typedef {object} Encoded what an encoding makes of a state: a band, or both of cell and grid
 * @property {Omit<Grid, "low" | "high">} pattern
 * @property {Float64Array} [band]
 * @property {(m: number, n: number) => number} [cell]
 * @property {(m: number) => Float64Array} [line] all keys of a query, where that is less work
 * @property {(step: number) => Float64Array} [grid] every step-th query and key
 * @property {(distance: number) => number} [curve]
 * @property {Float64Array} [plain]
 * @property {(distance: number) => number} [plainCurve]
 * @property {Float64Array} [theta]
 * @property {Array<[number, number]>} [pairs]
 * @property {(n: number) => ArrayLike<number>} [keyRow]
 */
/** @typedef {<T>(name: string, parameters: unknown[], make: () => T) => T} Once */
/** @typedef {Record<string, (s: State, data: PageData, once: Once) => Encoded>} Encodings by their names */
/** @typedef {Omit<Encoded, "pattern">} Scores */
/**
 * A band holds one number for each distance; of `lower` only what is at or under the diagonal is seen.
 *
 * @typedef {{
 *   values: Float64Array, rows: number, columns: number, band: boolean, lower: boolean, low: number, high: number,
 *   map: "RdBu_r" | "viridis",
 * }} Picture
 */
/** @typedef {import("../kit/paper.js").Look} Look */
/** @typedef {import("../kit/plot.js").Box} Box */
/** @typedef {import("../kit/plot.js").Scales} Scales */
/** @typedef {CanvasRenderingContext2D} Ctx */
/** @typedef {{ query?: number, key?: number, channel?: number, head?: number }} Focus */
/**
 * @typedef {object} Panel
 * @property {(ctx: Ctx, width: number, height: number, look: Look, view: View, other?: View | null) => void} draw
 * @property {(x: number, y: number, view: View) => Focus} pick
 */
/** @typedef {{ stage: import("../kit/stage.js").Stage, data: PageData, view: () => View, other: () => View | null }}
 *   Shown */

export {}
