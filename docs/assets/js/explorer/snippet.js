// The Python that makes what the panels show: `pattern` and `similarity`, with the package's NumPy twins.

import { channeled, isLogit, KINDS } from "./kinds.js"
import { ADD } from "./snippets/add.js"
import { BIAS } from "./snippets/bias.js"
import { ROTATE } from "./snippets/rotate.js"
import { SCORE } from "./snippets/score.js"
import { settle } from "./defaults.js"

/** @import { PageData, State } from "./types.js" */

const BODIES = { ...ADD, ...ROTATE, ...BIAS, ...SCORE }

/** Hide the keys ahead, and make attention of the scores. @param {State} s */
const attention = (s) => {
  const ahead = (/** @type {string} */ name, /** @type {string} */ value) =>
    s.causal ? [`${name}[np.triu_indices(${s.length}, 1)] = ${value}  # hide the keys ahead`] : []
  if (!s.softmax) return ahead("similarity", "np.nan")
  return [
    `logits = similarity${isLogit(s) ? "" : ` / ${s.width} ** 0.5`}`,
    ...ahead("logits", "-np.inf"),
    "weights = np.exp(logits - logits.max(axis=1, keepdims=True))",
    "similarity = weights / weights.sum(axis=1, keepdims=True)  # the softmax of each row",
    ...ahead("similarity", "np.nan"),
  ]
}

/** @param {State} state @param {PageData} data */
export const python = (state, data) => {
  const s = settle(state, data)
  const [top, ...rest] = BODIES[s.encoding](s, data)
  const printed = [
    `similarity[${s.query}, ${s.key}]`,
    ...(isLogit(s) || !channeled(s) ? [] : [`pattern[${s.query}, ${s.channel}]`]),
  ]
  const imports = top ? [top, ...rest.slice(0, rest.indexOf("") + 1)] : [""]
  const body = top ? rest.slice(rest.indexOf("") + 1) : rest
  return [
    "import numpy as np",
    ...imports,
    ...(s.words ? [`words = ${JSON.stringify(s.words)}.split()`] : []),
    ...body,
    ...attention(s),
    `print(${printed.join(", ")})`,
  ].join("\n")
}

/** Both views, one after the other. @param {State} a @param {State | null} b @param {PageData} data */
export const program = (a, b, data) => {
  if (!b) return python(a, data)
  const [first, second] = [a, b].map(({ encoding }) => KINDS[encoding].name)
  return [`# A: ${first}`, python(a, data), "", `# B: ${second}`, python(b, data)].join("\n")
}
