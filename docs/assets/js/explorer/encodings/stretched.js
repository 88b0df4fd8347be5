// RoPE's frequencies under each recipe.

import { byParts, dynamicNtk, linear, llama3, longrope, ntk, proportional, yarn } from "../../math/scaling.js"
import { resample } from "../../math/tables.js"
import { frequencies } from "../../math/waves.js"

/** @import { Stretched } from "../../math/scaling.js" */
/** @import { PageData, State } from "../types.js" */

/** @param {State} s @param {PageData} data @returns {Stretched} */
export const stretched = (s, data) => {
  const { width, base, factor, original_length: original } = s
  const ramp = { fast: data.ramps.beta_fast, slow: data.ramps.beta_slow }
  const known = data.longrope
  /** @type {Record<string, () => Stretched>} */
  const recipes = {
    none: () => ({ theta: frequencies(width, base), attention: 1 }),
    linear: () => linear(width, factor, base),
    ntk: () => ntk(width, factor, base),
    dynamic_ntk: () => dynamicNtk(width, factor, s.length, original, base),
    by_parts: () => byParts(width, factor, original, base, ramp),
    yarn: () => yarn(width, factor, original, base, ramp),
    llama3: () =>
      llama3(width, factor, original, base, { low: data.ramps.low_freq_factor, high: data.ramps.high_freq_factor }),
    longrope: () => longrope(width, resample(known.divisors, width / 2), known.factor, known.original_length, base),
    proportional: () => proportional(width, s.fraction, base),
  }
  return recipes[s.scaling]()
}
