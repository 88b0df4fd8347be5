// The Python of what turns queries and keys.

import { turning } from "../encodings/rotate.js"
import { contents, heads, learned, number, places, positions, rows } from "./common.js"

/** @import { PageData, State } from "../types.js" */

/** One vector whose pairs all lie along their first channel.
 * @param {State} s @param {number} wide @param {number} start of what turns */
const alongFirst = (s, wide, start) => {
  const turns = `np.${s.layout === "half" ? "repeat" : "tile"}([1.0, 0.0], ${wide / 2})`
  const rest = `np.tile([1.0, 0.0], ${(s.width - wide) / 2})`
  const both = start ? `${rest}, ${turns}` : `${turns}, ${rest}`
  return `q = k = ${wide === s.width ? turns : `np.concatenate([${both}])`}  # each pair along its first channel`
}

/** @param {State} s @param {number} wide */
const halves = (s, wide) => contents(s, alongFirst({ ...s, layout: "half" }, wide, 0))
/** @param {State} s */
const frequencies = (s) => `theta = ${number(s.base)} ** (-np.arange(0, ${s.width}, 2) / ${s.width})`

/** @param {State} s @param {PageData} data @param {number} width of what turns
 * @returns {{ from: string, lines: string[] } | null} */
const scaling = (s, { longrope }, width) => {
  const { scaling: name, factor } = s
  if (name === "none") return null
  const base = `base=${number(s.base)}`
  const original = `original_length=${number(s.original_length)}`
  /** @type {Record<string, string>} */
  const calls = {
    linear: `linear(${width}, ${factor}, ${base})`,
    ntk: `ntk(${width}, ${factor}, ${base})`,
    dynamic_ntk: `dynamic_ntk(${width}, ${factor}, ${s.length}, ${original}, ${base})`,
    by_parts: `by_parts(${width}, ${factor}, ${original}, ${base})`,
    yarn: `yarn(${width}, ${factor}, ${original}, ${base})`,
    llama3: `llama3(${width}, ${factor}, ${original}, ${base})`,
    longrope: `longrope(${width}, divisors, divisors, ${s.length}, ${number(longrope.original_length)}, ${longrope.factor}, ${base})`,
    proportional: `proportional(${width}, ${s.fraction}, ${base})`,
  }
  const { divisors } = longrope
  const list = [
    `known = np.array([${divisors.join(", ")}])`,
    `divisors = np.interp(np.linspace(0, ${divisors.length - 1}, ${width / 2}), np.arange(${divisors.length}), known)`,
  ]
  return {
    from: `from posenc.rotate.frequencies import ${name}`,
    lines: [...(name === "longrope" ? list : []), `theta, factor = ${calls[name]}`],
  }
}

/** Queries and keys turned by one call. @param {State} s @param {(x: string) => string} turn */
const products = (s, turn) => [
  `pattern = ${turn(rows(s, "q"))}`,
  `similarity = pattern @ ${turn(rows(s, "k"))}.T  # q . k`,
]

/** @type {import("./common.js").Bodies} */
export const ROTATE = {
  rope: (s, data) => {
    const wide = turning(s)
    const recipe = scaling(s, data, wide)
    const theta = recipe ? ["theta=theta"] : [`base=${number(s.base)}`]
    const part = wide === s.width ? [] : [`rotary_dim=${wide}`]
    const plain = [...theta, `layout="${s.layout}"`, ...part].join(", ")
    const options = recipe ? `${plain}, attention_factor=factor` : plain
    return [
      ...(recipe ? [recipe.from] : []),
      "from posenc.rotate.rope import rope",
      "",
      ...(recipe ? recipe.lines : []),
      `positions = ${positions(s)}`,
      ...contents(s, alongFirst(s, wide, 0)),
      ...(s.content === "peak" ? [`k = rope(q[None], np.array([${s.peak}]), ${plain})[0]`] : []),
      ...products(s, (x) => `rope(${x}, positions, ${options})`),
    ]
  },

  lerope: (s) => [
    "from posenc.rotate.lerope import lerope",
    "",
    `positions = ${positions(s)}`,
    ...contents(s, alongFirst(s, s.width, 0)),
    `alpha = ${s.spread} * ${learned(s)}.standard_normal(${s.width / 2})`,
    ...products(s, (x) => `lerope(${x}, positions, alpha, base=${number(s.base)}, layout="${s.layout}")`),
  ],

  latent: (s) => {
    const wide = turning(s)
    return [
      "from posenc.rotate.latent import latent",
      "",
      `positions = ${positions(s)}`,
      ...contents(s, alongFirst(s, wide, s.width - wide)),
      ...products(s, (x) => `latent(${x}, positions, ${wide}, base=${number(s.base)}, layout="${s.layout}")`),
    ]
  },

  xpos: (s) => [
    "from posenc.rotate.xpos import xpos",
    "",
    `positions, pair = ${positions(s)}, np.arange(0, ${s.width}, 2) / ${s.width}`,
    ...contents(s, alongFirst({ ...s, layout: "interleaved" }, s.width, 0)),
    `queries, keys = ${heads(s, "q")}, ${heads(s, "k")}`,
    `similarity = xpos(queries, keys, positions, positions, base=${number(s.base)}, scale_base=${s.scale_base})[0]`,
    `fade = ((pair + 0.4) / 1.4) ** (positions[:, None] / ${s.scale_base})`,
    `turn = np.exp(1j * positions[:, None] * ${number(s.base)} ** -pair)`,
    "pattern = (np.ascontiguousarray(queries[0]).view(complex) * fade * turn).view(float)",
  ],

  pope: (s) => {
    const fixed = `q = k = np.full(${s.width}, np.log(np.e - 1))  # softplus makes 1 of it`
    const theta = `${number(s.base)} ** (-np.arange(${s.width}) / ${s.width})`
    const phases = {
      zero: [`phase = np.zeros((1, ${s.width}))`],
      uniform: [
        ...(["random", "tokens"].includes(s.content) ? [] : [`draw = np.random.RandomState(${s.seed})`]),
        `phase = draw.uniform(-2 * np.pi, 0, (1, ${s.width}))`,
      ],
      peak: [`phase = np.mod(${s.peak} * theta, -2 * np.pi)[None]`],
    }
    return [
      "from posenc.rotate.pope import pope",
      "",
      `positions, theta = ${positions(s)}, ${theta}`,
      ...contents(s, fixed),
      ...phases[/** @type {"zero"} */ (s.phase)],
      `similarity = pope(${heads(s, "q")}, ${heads(s, "k")}, positions, positions, base=${number(s.base)}, phase=phase)[0]`,
      "angle = positions[:, None] * theta - phase  # the key's is without the phase",
      "turned = np.concatenate([np.cos(angle), np.sin(angle)], axis=1)",
      `pattern = np.tile(np.logaddexp(0, q), 2) * turned`,
    ]
  },

  fope: (s) => [
    "from posenc.rotate.fope import fope",
    "",
    `positions = ${positions(s)}`,
    ...halves(s, s.width),
    frequencies(s),
    `f = (theta >= 2 * np.pi / ${s.original_length}).sum()  # the others would not turn once`,
    `noise = ${s.gain} * (2 / (f * (1 + f))) ** 0.5 * ${learned(s)}.standard_normal((2, 1, f, f))`,
    "cos, sin = np.eye(f) + noise",
    ...products(s, (x) => `fope(${x}[None], positions, ${s.original_length}, ${number(s.base)}, cos, sin)[0]`),
  ],

  none: (s) => [
    "",
    ...contents(s),
    `pattern, keys = ${rows(s, "q")}, ${rows(s, "k")}`,
    "similarity = pattern @ keys.T  # q . k, wherever they stand",
  ],

  axial: (s) => [
    "from posenc.rotate.axial import axial",
    "",
    places(s),
    ...contents(s, alongFirst(s, s.width, 0)),
    ...products(s, (x) => `axial(${x}, places, base=${number(s.base)}, layout="${s.layout}")`),
  ],

  mrope: (s) => [
    "from posenc.rotate.mrope import mrope",
    "from posenc.models.mrope import mrope_positions",
    "",
    `kinds = [0] * ${s.before} + [1] * ${s.side ** 2} + [0] * ${s.before}  # text, picture, text`,
    `places, _ = mrope_positions(kinds, image_grids=[(1, ${2 * s.side}, ${2 * s.side})])`,
    ...halves(s, s.width),
    ...products(
      s,
      (x) => `mrope(${x}, places, interleaved=${s.interleaved ? "True" : "False"}, base=${number(s.base)})`,
    ),
  ],

  liere: (s) => [
    "from posenc.rotate.liere import liere",
    "",
    places(s),
    ...contents(s),
    `shape = (2, ${s.width / s.block}, ${s.block}, ${s.block})`,
    `generators = 2 * np.pi * ${s.spread} * ${learned(s)}.random_sample(shape)`,
    ...products(s, (x) => `liere(${x}, places / ${s.side}, generators)`),
  ],

  selective: (s) => [
    "from posenc.rotate.selective import selective",
    "",
    ...halves(s, s.width),
    `queries, keys, positions = ${heads(s, "q")}, ${heads(s, "k")}, ${positions(s)}`,
    `weight, bias = ${s.strength} * ${learned(s)}.standard_normal((${s.width / 2}, ${s.width})), np.ones(${s.width / 2})`,
    `similarity = selective(queries, keys, positions, positions, weight, bias, base=${number(s.base)})[0]`,
    frequencies(s),
    "angle = np.cumsum(theta * (keys[0] @ weight.T + bias), axis=0)",
    "first, second = np.split(queries[0], 2, axis=1)",
    "turned = (first + 1j * second) * np.exp(1j * angle)",
    "pattern = np.concatenate([turned.real, turned.imag], axis=1)",
  ],

  repo: (s) => {
    const inner = Math.max(1, Math.floor(s.width / 8))
    const wide = (/** @type {string} */ x) => (s.content === "tokens" ? x : `np.tile(${x}, (${s.length}, 1))`)
    return [
      "from posenc.rotate.repo import repo",
      "",
      ...halves(s, s.width),
      `learned = ${learned(s)}`,
      `gate, content = ${s.strength} * learned.standard_normal((2, ${inner}, ${s.width}))`,
      `final = ${s.strength} * learned.standard_normal((1, ${inner}))`,
      `pattern, keys = (repo(x[None], gate, content, final, base=${number(s.base)})[0] for x in (${wide("q")}, ${wide("k")}))`,
      "similarity = pattern @ keys.T",
    ]
  },
}
