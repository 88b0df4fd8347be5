// What is read of a model. posenc.config.layer in another language.

/** @typedef {Record<string, any>} Words */
/** @typedef {{ index: number, kind: string, encoding: string | null, head_dim: number, slice: [number, number], layout: string | null, theta: number[] | null, factor: number, base: number | null, window: number | null, sections: number[] | null, query_scale: Words | null, softmax_scale: number, why: string }} Layer */
/** @typedef {{ model_type: string, trained: number | null, added: string | null, layers: Layer[], parts: Record<string, Plan>, warnings: string[] }} Plan */
/** @typedef {Pick<Layer, "index" | "kind" | "head_dim" | "slice" | "window" | "softmax_scale" | "why">} Needed */

/** @param {Needed & Partial<Layer>} found @returns {Layer} */
export const layerOf = (found) => ({ ...STILL, ...found })

const STILL = { encoding: null, layout: null, theta: null, factor: 1, base: null, sections: null, query_scale: null }

/** @param {Pick<Plan, "model_type"> & Partial<Plan>} found @returns {Plan} */
export const planOf = (found) => ({ trained: null, added: null, layers: [], parts: {}, warnings: [], ...found })
