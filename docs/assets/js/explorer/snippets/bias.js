// The Python of what is added to a logit for each head.

import { learned, number, places, positions } from "./common.js"

/** @import { State } from "../types.js" */

/** @param {State} s @param {string[]} made @param {string} name @param {(m: string, n: string) => string} call */
const ofOffsets = (s, made, name, call) => [
  `from posenc.bias.${name} import ${name}`,
  "",
  `positions = ${positions(s)}`,
  `distance = np.arange(${s.causal ? 0 : 1 - s.length}, ${s.length})  # m - n`,
  ...made,
  `pattern = ${call("[0]", "-distance")}[:, 0]  # (heads, distances)`,
  `similarity = ${call("positions", "positions")}[${s.head}]  # the bias of head ${s.head}`,
]

/** @type {import("./common.js").Bodies} */
export const BIAS = {
  alibi: (s) => ofOffsets(s, [], "alibi", (m, n) => `alibi(${m}, ${n}, heads=${s.heads})`),

  t5: (s) =>
    ofOffsets(
      s,
      [`weight = np.random.RandomState(${s.seed}).standard_normal((${s.buckets}, ${s.heads}))`],
      "t5",
      (m, n) => `t5(${m}, ${n}, weight, ${s.max_distance}, bidirectional=${s.bidirectional ? "True" : "False"})`,
    ),

  kerple: (s) =>
    ofOffsets(
      s,
      [
        `r1, r2 = np.random.RandomState(${s.seed}).random_sample((2, ${s.heads}))`,
        `${s.form === "log" ? "r1" : "r2"} *= 2`,
        `r1[${s.head}], r2[${s.head}] = ${s.r1}, ${s.r2}`,
      ],
      "kerple",
      (m, n) => `kerple(${m}, ${n}, r1, r2, "${s.form}")`,
    ),

  sandwich: (s) =>
    ofOffsets(
      s,
      [],
      "sandwich",
      (m, n) => `sandwich(${m}, ${n}, heads=${s.heads}, dim=${s.width}, base=${number(s.base)})`,
    ),

  fire: (s, { fire: { width, multiplier } }) => {
    const bound = `${width} ** -0.5`
    const call = (/** @type {string} */ m) =>
      `fire(${m}, positions, ${s.c}, ${multiplier}, hidden[:, None], bias, out, out_bias, threshold=${number(s.threshold)})`
    return [
      "from posenc.bias.fire import fire",
      "",
      `positions, draw = ${positions(s)}, np.random.RandomState(${s.seed})`,
      `hidden, bias = draw.uniform(-1, 1, (2, ${width}))`,
      `out = draw.uniform(-1, 1, (${s.heads}, ${width})) * ${bound}`,
      `out_bias = draw.uniform(-1, 1, ${s.heads}) * ${bound}`,
      `similarity = ${call("positions")}[${s.head}]`,
      `query = positions[${s.query}]`,
      `pattern = ${call("[query]")}[:, 0, ${s.causal ? `${s.query}::-1` : "::-1"}]  # by distance`,
    ]
  },

  window: (s) => {
    const wide = 2 * s.window - 1
    return [
      "from posenc.bias.window import window",
      "",
      places(s),
      `weight = ${learned(s)}.standard_normal((${wide ** 2}, ${s.heads}))`,
      `pattern = weight[:, ${s.head}].reshape(${wide}, ${wide})  # rows up or down, columns left or right`,
      `similarity = window(places, places, weight, window=(${s.window}, ${s.window}))[${s.head}]`,
    ]
  },
}
