// How many numbers a token leaves in the cache of one layer, by kind of attention.

/** @typedef {{ heads: number, groups: number, width: number, latent: number, rotary: number }} Sizes */

/** Keys and values of each head, of each group, of one; a latent and a turned key. @param {Sizes} sizes */
export const perToken = ({ heads, groups, width, latent, rotary }) => ({
  "each head": 2 * heads * width,
  groups: 2 * groups * width,
  "one key": 2 * width,
  latent: latent + rotary,
})
