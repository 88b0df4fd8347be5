// Layers that are alike, and the words of a table for them. posenc.config.printed in another language.

/** @typedef {import("./layer.js").Plan} Plan */
/** @typedef {import("./layer.js").Layer} Layer */
/** @typedef {{ layers: number[], layer: Layer, theta: number[], color: number }} Group */

/** The parts of a plan that have layers, each with its name; none for a model of one part. @param {Plan} plan @param {string} [name] @returns {{ name: string, plan: Plan }[]} */
export const towers = (plan, name = "") => {
  const inner = Object.entries(plan.parts).flatMap(([key, part]) => towers(part, name ? `${name}.${key}` : key))
  return plan.layers.length ? [{ name, plan }, ...inner] : inner
}

/** @param {Plan} plan @returns {Group[]} */
export const groups = (plan) => {
  /** @type {Map<string, Group>} */
  const found = new Map()
  for (const layer of plan.layers) {
    const key = JSON.stringify({ ...layer, index: 0 })
    const group = found.get(key) ?? { layers: [], layer, theta: layer.theta ?? [], color: found.size }
    group.layers.push(layer.index)
    found.set(key, group)
  }
  return [...found.values()]
}

const many = (/** @type {number} */ v) =>
  v < 100 ? String(Number(v.toPrecision(3))) : Math.round(v).toLocaleString("en")

/** 0-3, 5-7: neighbors in one piece; every fourth as 3, 7 … 31. @param {number[]} numbers */
export const listed = (numbers) => {
  const step = numbers[1] - numbers[0]
  const even = numbers.length > 3 && step > 1 && numbers.every((n, i) => n === numbers[0] + i * step)
  if (even) return `${numbers[0]}, ${numbers[1]} … ${numbers[numbers.length - 1]}`
  /** @type {[number, number][]} */
  const runs = []
  for (const n of numbers) {
    const last = runs[runs.length - 1]
    if (last && last[1] === n - 1) last[1] = n
    else runs.push([n, n])
  }
  const words = runs.map(([a, b]) => (a === b ? String(a) : `${a}–${b}`))
  return words.length > 4 ? `${words[0]}, ${words[1]} … ${words[words.length - 1]}` : words.join(", ")
}

/** What multiplies those that turn, all logits beside 1/√d, and queries by their place. @param {Layer} layer */
const scales = ({ factor, softmax_scale, head_dim, query_scale }) => {
  const softmax = softmax_scale * Math.sqrt(head_dim)
  const found = []
  if (factor !== 1) found.push(`× ${Number(factor.toPrecision(4))}`)
  if (Math.abs(softmax - 1) > 1e-9) found.push(`softmax × ${Number(softmax.toPrecision(4))}`)
  if (query_scale?.kind === "head") found.push("queries × head, learned")
  else if (query_scale) found.push(`queries × ${query_scale.kind} from ${many(query_scale.original_length)}`)
  return found.map((words) => `, ${words}`).join("")
}

/** How many tokens a layer sees, infinitely many where nothing tells. @param {Layer} layer @param {number} trained */
export const reach = ({ window }, trained) => Math.min(window ?? Infinity, trained || Infinity)

/** The cells of a group's row. @param {Group} group @param {number} trained @returns {string[]} */
export const marks = ({ layers, layer, theta }, trained) => {
  const which = `${layers.length} (${listed(layers)})`
  const window = layer.window ? many(layer.window) : "all"
  const scaled = scales(layer)
  if (!theta.length)
    return [which, `${layer.encoding ?? `none: ${layer.why}`}${scaled}`, "–", "–", "–", window, "–", "–", "–"]
  const [start, stop] = layer.slice
  const slow = Math.min(...theta.filter(Boolean).map(Math.abs))
  const seen = reach(layer, trained)
  const never = theta.filter((t) => Math.abs(t) * seen < 2 * Math.PI).length
  const turning =
    2 * theta.length === layer.head_dim ? `all ${layer.head_dim}` : `${2 * theta.length} of ${layer.head_dim}`
  const from = start ? `, from ${start}` : ""
  return [
    which,
    `${layer.encoding}${layer.sections ? ` [${layer.sections.join(", ")}]` : ""}${scaled}`,
    layer.base === null ? "–" : many(layer.base),
    `${turning}${stop - start === layer.head_dim ? "" : from}`,
    layer.layout ?? "–",
    window,
    many((2 * Math.PI) / slow),
    Number.isFinite(seen) ? `${many((slow * seen) / (2 * Math.PI))} ×` : "–",
    Number.isFinite(seen) ? `${Math.round((100 * never) / theta.length)} %` : "–",
  ]
}
