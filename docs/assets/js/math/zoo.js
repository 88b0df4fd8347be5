// Which pairs of a head complete a turn within a length: chapter 6.7's formulas in another language.

import { frequencies } from "./waves.js"

/** The tokens that a turn takes, for each pair that turns.
 * @param {number} head channels @param {number} turning so many of them @param {number} base
 * @param {boolean} proportional the fastest turn, at the pace of the whole head; otherwise as in a head that is so
 *   narrow */
export const waves = (head, turning, base, proportional) =>
  frequencies(proportional ? head : turning, base)
    .slice(0, Math.floor(turning / 2))
    .map((theta) => (2 * Math.PI) / theta)

/** How many do not complete a turn. @param {ArrayLike<number>} wavelengths @param {number} length */
export const unfinished = (wavelengths, length) => Array.from(wavelengths).filter((wave) => wave > length).length

/** The part of its circle that each pair goes round. @param {Float64Array} wavelengths @param {number} length */
export const circle = (wavelengths, length) => wavelengths.map((wave) => Math.min(1, length / wave))

/** The share of unfinished pairs, but for the rounding of one. @param {number} length @param {number} base */
export const share = (length, base) => 1 - Math.log(length / (2 * Math.PI)) / Math.log(base)

/** The base for which that is the share. @param {number} length @param {number} part */
export const keeping = (length, part) => (length / (2 * Math.PI)) ** (1 / (1 - part))

/** The base by the NTK rule, for texts so many times as long.
 * @type {(base: number, factor: number, turning: number) => number} */
export const ntkBase = (base, factor, turning) => base * factor ** (turning / (turning - 2))
