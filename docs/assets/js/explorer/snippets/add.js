// The Python of what is added to a token.

import { contents, learned, number, places, positions, rows } from "./common.js"

const PRODUCTS = "similarity = pattern @ pattern.T"

/** @type {import("./common.js").Bodies} */
export const ADD = {
  sinusoidal: (s) => [
    "from posenc.add.sinusoidal import sinusoidal",
    "",
    `positions = ${positions(s)}`,
    `pattern = sinusoidal(positions, dim=${s.width}, base=${number(s.base)}, order="${s.order}")`,
    `${PRODUCTS}  # PE(m) . PE(n)`,
  ],

  learned: (s, { std, trained }) =>
    s.table === "random"
      ? [
          "from posenc.add.learned import learned",
          "",
          `weight = ${std} * np.random.RandomState(${s.seed}).standard_normal((${s.length}, ${s.width}))`,
          `pattern = learned(np.arange(${s.length}), weight)`,
          `${PRODUCTS}  # P[m] . P[n]`,
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
          `${PRODUCTS}  # P[m] . P[n]`,
        ],

  fourier: (s) => {
    const kinds = { powers: `kind="powers"`, bands: `kind="bands", resolution=${s.length}`, gaussian: "cycles=cycles" }
    const cycles = `cycles = ${s.scale} * ${learned(s)}.standard_normal(${s.width / 2})`
    return [
      "from posenc.add.fourier import fourier",
      "",
      `coordinates = np.arange(${s.length}) / ${s.length}`,
      ...(s.features === "gaussian" ? [cycles] : []),
      `pattern = fourier(coordinates, dim=${s.width}, ${kinds[/** @type {"powers"} */ (s.features)]})`,
      PRODUCTS,
    ]
  },

  grid: (s) => [
    "from posenc.add.grid import grid",
    "",
    places(s),
    `pattern = grid(places, dim=${s.width}, base=${number(s.base)}, order="${s.axes_order}")`,
    PRODUCTS,
  ],

  convolution: (s) => [
    "from posenc.add.convolution import convolution",
    "",
    ...contents(s),
    `weight = ${learned(s)}.standard_normal((${s.width}, 1, ${s.taps})) * 2 / (${s.taps} * ${s.width}) ** 0.5`,
    `x, positions = ${rows(s, "q")}, ${positions(s)}`,
    `pattern = convolution(x, positions, weight, bias=0, kernel=${s.taps}, groups=${s.width})  # what is added`,
    PRODUCTS,
  ],

  conditional: (s) => [
    "from posenc.add.conditional import conditional",
    "",
    ...contents(s),
    places(s),
    `weight = ${learned(s)}.standard_normal((${s.width}, 3, 3)) / 3`,
    `pattern = conditional(${rows(s, "q")}, places, weight, bias=0)  # what is added`,
    PRODUCTS,
  ],
}
