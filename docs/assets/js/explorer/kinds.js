// The encodings: through which door each enters, which knobs it has, and what its pictures are pictures of.

/** @import { State } from "./types.js" */
/** @typedef {"add" | "rotate" | "bias" | "score" | "none"} Door */
/**
 * @typedef {object} Kind
 * @property {string} name
 * @property {Door} door
 * @property {string[]} knobs of its own
 * @property {Record<string, any>} [usual] values to begin with, where they are not those of the others
 * @property {boolean} [grid] its tokens are the patches of a square picture
 * @property {string} [rows] what a row of its pattern is, where it is no position and no head
 * @property {string} [columns] what a column is, where it is no channel and no distance
 * @property {number} [widest]
 */

const FILLED = ["width", "content", "seed"]
const ROTARY = ["width", "base", "content"]
const BY_HEAD = ["heads", "head"]
const SMALL = { width: 32, content: "random" }
const TOKENS = { content: "tokens" }
const PAST = { ...SMALL, causal: true }

/** @type {Record<string, Kind>} */
export const KINDS = {
  sinusoidal: { name: "Sinusoidal", door: "add", knobs: ["order", "width", "base", "first"] },
  learned: { name: "Learned table", door: "add", knobs: ["table", "width", "seed"] },
  fourier: {
    ...{ name: "Fourier features", door: "add", knobs: ["features", "scale", "width", "seed"] },
    usual: { width: 12 },
  },
  grid: {
    ...{ name: "Grid, 2-D sinusoids", door: "add", knobs: ["side", "axes_order", "width", "base"] },
    ...{ grid: true, usual: { width: 64 } },
  },
  convolution: {
    ...{ name: "Convolution", door: "add", knobs: [...FILLED, "taps"] },
    ...{ usual: { width: 32 }, widest: 64 },
  },
  conditional: {
    ...{ name: "Conditional", door: "add", knobs: [...FILLED, "side"] },
    ...{ grid: true, usual: { width: 32 }, widest: 64 },
  },

  rope: {
    ...{ name: "RoPE", door: "rotate" },
    knobs: [...ROTARY, "seed", "share", "layout", "scaling", "factor", "original_length", "fraction", "first", "peak"],
  },
  xpos: {
    name: "xPos",
    door: "rotate",
    knobs: [...ROTARY, "seed", "scale_base", "first"],
    usual: { scale_base: 64, causal: true },
  },
  pope: { name: "PoPE", door: "rotate", knobs: [...ROTARY, "seed", "phase", "first", "peak"] },
  axial: {
    ...{ name: "Axial, 2-D RoPE", door: "rotate", knobs: [...ROTARY, "seed", "side", "layout"] },
    ...{ grid: true, usual: { base: 100, width: 64 } },
  },
  mrope: {
    ...{ name: "M-RoPE", door: "rotate", knobs: [...ROTARY, "seed", "before", "side", "interleaved"] },
    usual: { base: 1e6, side: 8 },
  },
  fope: { name: "FoPE", door: "rotate", knobs: [...ROTARY, "seed", "original_length", "gain", "first"] },
  lerope: { name: "LeRoPE", door: "rotate", knobs: [...ROTARY, "seed", "spread", "layout", "first"] },
  latent: {
    ...{ name: "Latent", door: "rotate", knobs: [...ROTARY, "seed", "share", "layout", "first"] },
    usual: { width: 192, share: 0.33, layout: "interleaved" },
  },
  liere: {
    ...{ name: "LieRE", door: "rotate", knobs: [...FILLED, "side", "block", "spread"] },
    ...{ grid: true, usual: { ...SMALL, width: 64, spread: 0.5 }, widest: 64 },
  },
  selective: {
    ...{ name: "Selective RoPE", door: "rotate", knobs: [...ROTARY, "seed", "strength"] },
    ...{ usual: { ...TOKENS, width: 64, strength: 0.1, causal: true }, widest: 64 },
  },
  repo: {
    ...{ name: "RePo", door: "rotate", knobs: [...ROTARY, "seed", "strength"] },
    ...{ usual: { ...TOKENS, width: 64, strength: 0.3 }, widest: 64 },
  },

  alibi: { name: "ALiBi", door: "bias", knobs: BY_HEAD },
  t5: { name: "T5", door: "bias", knobs: [...BY_HEAD, "buckets", "max_distance", "bidirectional", "seed"] },
  kerple: { name: "KERPLE", door: "bias", knobs: [...BY_HEAD, "form", "r1", "r2", "seed"] },
  fire: { name: "FIRE", door: "bias", knobs: [...BY_HEAD, "c", "threshold", "first", "seed"] },
  sandwich: { name: "Sandwich", door: "bias", knobs: [...BY_HEAD, "width", "base"] },
  window: {
    ...{ name: "Window, as in Swin", door: "bias", knobs: [...BY_HEAD, "side", "window", "seed"] },
    ...{ grid: true, rows: "rows up or down", columns: "columns left or right" },
  },

  shaw: {
    ...{ name: "Shaw", door: "score", knobs: [...FILLED, "clip"], usual: SMALL, widest: 64 },
    rows: "offset n − m",
  },
  music: {
    ...{ name: "Music Transformer", door: "score", knobs: [...FILLED, "clip"], usual: PAST, widest: 64 },
    rows: "offset n − m",
  },
  transformer_xl: {
    ...{ name: "Transformer-XL", door: "score", knobs: [...FILLED, "base"], usual: SMALL, widest: 64 },
    rows: "offset m − n",
  },
  deberta: {
    ...{ name: "DeBERTa", door: "score", knobs: [...FILLED, "buckets", "max_distance"], usual: SMALL, widest: 64 },
    rows: "bucket of m − n",
  },
  decomposed: {
    ...{ name: "Decomposed", door: "score", knobs: [...FILLED, "side"], usual: SMALL, widest: 64 },
    ...{ grid: true, rows: "rows between" },
  },
  profiles: {
    ...{ name: "Profiles", door: "score", knobs: [...FILLED, "rank", "extent"], usual: PAST, widest: 64 },
    ...{ rows: "curve", columns: "offset m − n" },
  },
  gated: {
    ...{ name: "Gated", door: "score", knobs: [...FILLED, "buckets", "max_distance"], usual: { ...SMALL, ...TOKENS } },
    ...{ rows: "number", columns: "offset m − n", widest: 64 },
  },
  cope: {
    ...{ name: "CoPE", door: "score", knobs: [...FILLED, "clip"], usual: { ...PAST, ...TOKENS, clip: 64 } },
    ...{ rows: "count", widest: 64 },
  },
  forget: {
    ...{ name: "Forget", door: "score", knobs: [...FILLED, "opening"], usual: { ...PAST, ...TOKENS } },
    ...{ rows: "gate", columns: "position p", widest: 64 },
  },
  path: { name: "PaTH", door: "score", knobs: FILLED, usual: { ...PAST, ...TOKENS }, widest: 64 },

  none: { name: "None", door: "none", knobs: FILLED },
}

/** @type {Array<[Door, string]>} */
export const DOORS = [
  ["add", "added to the embedding"],
  ["rotate", "rotates queries and keys"],
  ["bias", "bias by offset"],
  ["score", "bias by content and offset"],
  ["none", "no encoding"],
]

/** @param {State} s */
export const kindOf = (s) => KINDS[s.encoding]
/** Whether what is shown is a bias for each of several heads. @param {State} s */
export const biased = (s) => kindOf(s).door === "bias"
/** Whether what is shown is added to logits as it is. @param {State} s */
export const isLogit = (s) => ["bias", "score"].includes(kindOf(s).door)
/** Whether its pattern has channels. @param {State} s */
export const channeled = (s) => !biased(s) && !kindOf(s).columns
