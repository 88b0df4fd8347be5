// What is read of a model. posenc.config.layer in another language.

/** @typedef {Record<string, any>} Fields */
/** @typedef {{ index: number, layer_type: string, encoding: string | null, head_dim: number, slice: [number, number],
 *   layout: string | null, theta: number[] | null, attention_factor: number, base: number | null,
 *   window: number | null, sections: number[] | null, query_scale: Fields | null, softmax_scale: number, why: string }}
 *   Layer */
/** @typedef {{ model_type: string, trained: number | null, added: string | null, layers: Layer[],
 *   parts: Record<string, Plan>, warnings: string[] }} Plan */
/** @typedef {Pick<Layer, "index" | "layer_type" | "head_dim" | "slice" | "window" | "softmax_scale" | "why">} Required
 */

/** @type {Omit<Layer, keyof Required>} of a layer without position */
const DEFAULTS = {
  encoding: null,
  layout: null,
  theta: null,
  attention_factor: 1,
  base: null,
  sections: null,
  query_scale: null,
}

/** @param {Required & Partial<Layer>} fields @returns {Layer} */
export const layerOf = (fields) => ({ ...DEFAULTS, ...fields })

/** @param {Pick<Plan, "model_type"> & Partial<Plan>} fields @returns {Plan} */
export const planOf = (fields) => ({ trained: null, added: null, layers: [], parts: {}, warnings: [], ...fields })
