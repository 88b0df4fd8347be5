// The Python of what is added to a logit by content and offset.

import { contents, heads, learned, number, places, positions, root } from "./common.js"

/** @import { State } from "../types.js" */

/** What all of them begin with. @param {State} s @param {string} name @param {string} [where] */
const begin = (s, name, where = `positions = ${positions(s)}`) => [
  `from posenc.score.${name} import ${name}`,
  "",
  where,
  ...contents(s),
  `q, k = ${heads(s, "q")}, ${heads(s, "k")}`,
]

/** @param {State} s @param {string} name @param {string} data */
const scored = (s, name, data) => `similarity = ${name}(q, k, positions, positions, ${data})[0]`

/** @type {import("./common.js").Bodies} */
export const SCORE = {
  shaw: (s) => [
    ...begin(s, "shaw"),
    `pattern = ${learned(s)}.standard_normal((${2 * s.clip + 1}, ${s.width})) / ${root(s)}`,
    scored(s, "shaw", "pattern"),
  ],

  music: (s) => [
    ...begin(s, "music"),
    `pattern = ${learned(s)}.standard_normal((${s.clip}, ${s.width})) / ${root(s)}`,
    scored(s, "music", "pattern"),
  ],

  transformer_xl: (s) => [
    ...begin(s, "transformer_xl"),
    `learned, d = ${learned(s)}, ${s.width}`,
    "u, v, weight = (learned.standard_normal(shape) / d**0.5 for shape in ((1, d), (1, d), (1, d, d)))",
    scored(s, "transformer_xl", `u, v, weight, base=${number(s.base)}`),
    `angle = np.arange(${1 - s.length}, ${s.length})[:, None] * ${number(s.base)} ** (-np.arange(0, d, 2) / d)`,
    "pattern = np.concatenate([np.sin(angle), np.cos(angle)], axis=1)  # the sinusoid of each distance",
  ],

  deberta: (s) => [
    ...begin(s, "deberta"),
    `pattern, queries = ${learned(s)}.standard_normal((2, ${2 * s.buckets}, ${s.width})) / ${root(s)}`,
    scored(s, "deberta", `pattern[None], queries[None], max_distance=${s.max_distance}`),
  ],

  profiles: (s) => [
    ...begin(s, "profiles"),
    `learned = ${learned(s)}`,
    `weight = learned.standard_normal((1, ${s.rank}, ${s.width})) / ${root(s)}`,
    `pattern = 0.02 * learned.standard_normal((${s.rank}, ${s.extent}))`,
    scored(s, "profiles", "weight, pattern"),
  ],

  gated: (s) => {
    const [top, ...rest] = begin(s, "gated")
    return [
      "from posenc.bias.t5 import t5_bucket",
      top,
      ...rest,
      `learned = ${learned(s)}`,
      `weight = learned.standard_normal((${s.buckets}, 1))`,
      `gate = learned.standard_normal((${s.width}, 2)) / ${root(s)}`,
      scored(s, "gated", `weight, gate, bias=0, scale=[1], max_distance=${s.max_distance}`),
      `distance = np.arange(${1 - s.length}, ${s.length})  # m - n`,
      `pattern = weight[t5_bucket(-distance, ${s.buckets}, ${s.max_distance})].T`,
    ]
  },

  decomposed: (s) => [
    ...begin(s, "decomposed", places(s)),
    `pattern, columns = ${learned(s)}.standard_normal((2, ${2 * s.side - 1}, ${s.width})) / ${root(s)}`,
    "similarity = decomposed(q, k, places, places, pattern, columns)[0]",
  ],

  cope: (s) => [
    ...begin(s, "cope"),
    `pattern = ${learned(s)}.standard_normal((${s.clip}, ${s.width})) / ${root(s)}`,
    scored(s, "cope", "pattern"),
  ],

  forget: (s) => [
    ...begin(s, "forget"),
    `weight = ${learned(s)}.standard_normal((1, ${s.width})) / ${root(s)}`,
    scored(s, "forget", `weight, bias=[${s.opening}]`),
    `pattern = 1 / (1 + np.exp(-weight @ k[0].T - ${s.opening}))  # the gate of each token`,
  ],

  path: (s) => [
    ...begin(s, "path"),
    `learned = ${learned(s)}`,
    `weight = learned.standard_normal((${s.width}, ${s.width})) / ${root(s)}`,
    `gate = learned.standard_normal(${s.width}) / ${root(s)}`,
    scored(s, "path", "weight, gate, bias=0"),
    "w = k[0] @ weight.T  # what each token mirrors along",
    "pattern = w / np.linalg.norm(w, axis=1, keepdims=True)",
  ],
}
