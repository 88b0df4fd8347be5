// The Python that makes what the panels show: `pattern` and `similarity`, with the package's NumPy twins.

import { biased, settle } from "./spec.js"

/** @import { State, Given } from "./types.js" */

/** A number as Python writes it. @param {number} value */
const number = (value) =>
  Number.isInteger(value) && value >= 10_000 ? value.toLocaleString("en").replaceAll(",", "_") : String(value)

/** @param {State} s */
const positions = ({ first, length }) =>
  first ? `np.arange(${number(first)}, ${number(first + length)})` : `np.arange(${length})`

/** @param {State} s @param {string} alike how constant contents are made @param {string} [batch] an axis before them */
const contents = (s, alike, batch = "") => {
  const shape = s.content === "tokens" ? `${s.length}, ${s.width}` : `${s.width}`
  return ["random", "tokens"].includes(s.content)
    ? [`draw = np.random.RandomState(${s.seed})`, `q, k = draw.standard_normal((2, ${batch}${shape}))`]
    : [alike]
}

/** @type {Record<string, (s: State, given: Given) => string[]>} */
const BODIES = {
  sinusoidal: (s) => [
    "from posenc.add.sinusoidal import sinusoidal",
    "",
    `positions = ${positions(s)}`,
    `pattern = sinusoidal(positions, dim=${s.width}, base=${number(s.base)}, order="${s.order}")`,
    "similarity = pattern @ pattern.T  # PE(m) . PE(n)",
  ],

  learned: (s, { std, trained }) =>
    s.table === "random"
      ? [
          "from posenc.add.learned import learned",
          "",
          `weight = ${std} * np.random.RandomState(${s.seed}).standard_normal((${s.length}, ${s.width}))`,
          `pattern = learned(np.arange(${s.length}), weight)`,
          "similarity = pattern @ pattern.T  # P[m] . P[n]",
        ]
      : [
          "import torch",
          "from posenc.add.learned import Learned",
          "from posenc_book.lab import Model, corpus, passages, train",
          "",
          "ids, letters = corpus()",
          `torch.manual_seed(${trained.seed})`,
          `model = Model(add=Learned(dim=${trained.dim}, length=${trained.length}), tokens=len(letters))`,
          `text = passages(ids[: int(${trained.share} * len(ids))])`,
          `train(model, text, ${trained.steps}, length=${trained.length}, batch=${trained.batch}, seed=${trained.seed}, rate=${trained.rate})`,
          `weight = model.add.weight.detach().double().numpy().round(${trained.digits})`,
          `pattern = weight[:${s.length}]`,
          "similarity = pattern @ pattern.T  # P[m] . P[n]",
        ],

  rope: (s, given) => {
    const recipe = scaling(s, given)
    const theta = recipe ? ["theta=theta", "attention_factor=factor"] : [`base=${number(s.base)}`]
    const options = [...theta, `layout="${s.layout}"`].join(", ")
    const turned = (/** @type {string} */ x) => (s.content === "tokens" ? x : `np.tile(${x}, (${s.length}, 1))`)
    const start = `q = k = np.${s.layout === "half" ? "repeat" : "tile"}([1.0, 0.0], ${s.width / 2})`
    const peak = recipe ? `theta=theta, layout="${s.layout}"` : options
    return [
      ...(recipe ? [recipe.from] : []),
      "from posenc.rotate.rope import rope",
      "",
      ...(recipe ? recipe.lines : []),
      `positions = ${positions(s)}`,
      ...contents(s, `${start}  # each pair along its first channel`),
      ...(s.content === "peak" ? [`k = rope(q[None], np.array([${s.peak}]), ${peak})[0]`] : []),
      `pattern = rope(${turned("q")}, positions, ${options})`,
      `similarity = pattern @ rope(${turned("k")}, positions, ${options}).T  # q . k`,
    ]
  },

  pope: (s) => {
    const one = s.content === "tokens" ? "" : "[None]"
    const fixed = `q = k = np.full(${s.width}, np.log(np.e - 1))  # softplus makes 1 of it`
    const wide = (/** @type {string} */ x) => (one ? `np.tile(${x}, (1, ${s.length}, 1))` : `${x}[None]`)
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
      `similarity = pope(${wide("q")}, ${wide("k")}, positions, positions, base=${number(s.base)}, phase=phase)[0]`,
      "angle = positions[:, None] * theta - phase  # the key's is without the phase",
      "turned = np.concatenate([np.cos(angle), np.sin(angle)], axis=1)",
      `pattern = np.tile(np.logaddexp(0, q), 2) * turned`,
    ]
  },

  none: (s) => {
    const row = (/** @type {string} */ x) => (s.content === "tokens" ? x : `np.tile(${x}, (${s.length}, 1))`)
    return [
      "",
      ...contents(s, `q = k = np.ones(${s.width})`),
      `pattern, keys = ${row("q")}, ${row("k")}`,
      "similarity = pattern @ keys.T  # q . k, wherever they stand",
    ]
  },

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
}

/** @param {State} s @param {string[]} made @param {string} name @param {(m: string, n: string) => string} call */
const ofOffsets = (s, made, name, call) => [
  `from posenc.bias.${name} import ${name}`,
  "",
  `positions = np.arange(${s.length})`,
  `distance = np.arange(${s.causal ? 0 : 1 - s.length}, ${s.length})  # m - n`,
  ...made,
  `pattern = ${call("[0]", "-distance")}[:, 0]  # (heads, distances)`,
  `similarity = ${call("positions", "positions")}[${s.head}]  # the bias of head ${s.head}`,
]

/** @param {State} s @param {Given} given @returns {{ from: string, lines: string[] } | null} */
const scaling = (s, { longrope }) => {
  const { width, scaling: name, factor } = s
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
  const places = `np.linspace(0, ${divisors.length - 1}, ${width / 2})`
  const list = [
    `known = np.array([${divisors.join(", ")}])`,
    `divisors = np.interp(${places}, np.arange(${divisors.length}), known)`,
  ]
  return {
    from: `from posenc.rotate.frequencies import ${name}`,
    lines: [...(name === "longrope" ? list : []), `theta, factor = ${calls[name]}`],
  }
}

/** @param {State} state @param {Given} given */
export const python = (state, given) => {
  const s = settle(state, given)
  const [top, ...rest] = BODIES[s.encoding](s, given)
  const shown = [`similarity[${s.query}, ${s.key}]`, ...(biased(s) ? [] : [`pattern[${s.query}, ${s.channel}]`])]
  return [
    "import numpy as np",
    ...(top ? [top] : [""]),
    ...rest,
    ...(s.causal ? [`similarity[np.triu_indices(${s.length}, 1)] = np.nan  # hide the keys ahead`] : []),
    `print(${shown.join(", ")})`,
  ].join("\n")
}
