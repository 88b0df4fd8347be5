// What the explorer's parts hand to each other. Types only: no page loads this file.

/** @typedef {Record<string, any>} State every knob's value, by its name */
/** @typedef {{ min: number, max: number, value: number }} Bounds */
/** @typedef {{ dim: number, length: number, steps: number, batch: number, rate: number, seed: number, share: number, digits: number, table: ArrayLike<number> }} Trained */
/**
 * @typedef {object} Given what the page passes
 * @property {string} version
 * @property {Record<string, Bounds>} knobs
 * @property {Record<string, string[]>} choices the first is the default
 * @property {Record<string, boolean>} toggles
 * @property {number} std
 * @property {Trained} trained
 * @property {{ beta_fast: number, beta_slow: number, low_freq_factor: number, high_freq_factor: number }} ramps
 * @property {{ divisors: number[], factor: number, original_length: number }} longrope
 * @property {{ width: number, eps: number, multiplier: number }} fire
 * @property {Array<[State, number, number, number, number, number, number]>} golden a state; row, column and value of the pattern; m, n and similarity
 * @property {Array<[State, string, string]>} tour
 * @property {State} [state]
 * @property {string} [embedded]
 * @property {string[]} [controls]
 */
/**
 * @typedef {object} Knob
 * @property {string} name
 * @property {string} label
 * @property {"choice" | "toggle" | "integer" | "log" | "share"} kind
 * @property {(state: State) => boolean} when it applies
 * @property {number} [step]
 * @property {boolean} [whole] of a logarithmic knob: integers only
 */
/** @typedef {{ values: Float64Array, rows: number, columns: number, from: number, low: number, high: number }} Grid `from` is the distance of a bias's first column */
/**
 * @typedef {object} View
 * @property {State} state
 * @property {Grid} pattern
 * @property {Float64Array | null} band the similarity at distances 1 - length … length - 1, where it depends on nothing else
 * @property {Float64Array | null} values the similarity of every m and n, where it does not
 * @property {number} low of the similarity
 * @property {number} high
 * @property {Float64Array | null} plain the band without scaling
 * @property {Float64Array | null} theta a frequency for each pair
 * @property {Array<[number, number]>} pairs the two columns of each
 * @property {(m: number, n: number) => number} at
 * @property {(m: number) => Float64Array} row of the query m, over keys n
 * @property {(m: number) => Float64Array} weights what attention makes of that row
 * @property {(n: number) => ArrayLike<number>} queryRow
 * @property {(n: number) => ArrayLike<number>} keyRow
 */
/** @typedef {{ pattern: Omit<Grid, "low" | "high">, band?: Float64Array, values?: Float64Array, plain?: Float64Array, theta?: Float64Array, pairs?: Array<[number, number]>, keyRow?: (n: number) => ArrayLike<number> }} Found */
/** @typedef {<T>(name: string, parameters: unknown[], make: () => T) => T} Once */
/** @typedef {{ values: Float64Array, rows: number, columns: number, band: boolean, lower: boolean, low: number, high: number, map: "RdBu_r" | "viridis" }} Picture a band holds one number for each distance; of `lower` only what is at or under the diagonal is seen */
/** @typedef {import("../kit/paper.js").Look} Look */
/** @typedef {import("../kit/plot.js").Box} Box */
/** @typedef {import("../kit/plot.js").Scales} Scales */
/** @typedef {CanvasRenderingContext2D} Ctx */
/** @typedef {{ query?: number, key?: number, channel?: number, head?: number }} Focus */
/**
 * @typedef {object} Panel
 * @property {(ctx: Ctx, width: number, height: number, look: Look, view: View) => void} draw
 * @property {(x: number, y: number, view: View) => Focus} pick
 */
/** @typedef {{ stage: import("../kit/stage.js").Stage, given: Given, panels: Panel[], view: () => View }} Shown */

export {}
