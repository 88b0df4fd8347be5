// Layers that are alike, and the cells of a table for them. posenc.config.plan_text in another language.

/** @import { Layer, Plan } from "./layer.js" */
/** @typedef {{ layers: number[], layer: Layer, theta: number[], color: number }} Group */

/** The parts of a plan that have layers, each with its name; none for a model of one part.
 * @type {(plan: Plan, name?: string) => { name: string, plan: Plan }[]} */
export const towers = (plan, name = "") => {
  const inner = Object.entries(plan.parts).flatMap(([key, part]) => towers(part, name ? `${name}.${key}` : key))
  return plan.layers.length ? [{ name, plan }, ...inner] : inner
}

/** @param {Plan} plan @returns {Group[]} */
export const groups = (plan) => {
  /** @type {Map<string, Group>} */
  const byContent = new Map()
  for (const layer of plan.layers) {
    const key = JSON.stringify({ ...layer, index: 0 })
    const group = byContent.get(key) ?? { layers: [], layer, theta: layer.theta ?? [], color: byContent.size }
    group.layers.push(layer.index)
    byContent.set(key, group)
  }
  return [...byContent.values()]
}

const threeDigits = (/** @type {number} */ v) =>
  v < 100 ? String(Number(v.toPrecision(3))) : Math.round(v).toLocaleString("en")

/** 0-3, 5-7: neighbors in one piece; every fourth as 3, 7 … 31. @param {number[]} numbers */
export const ranges = (numbers) => {
  const step = numbers[1] - numbers[0]
  const isEven = numbers.length > 3 && step > 1 && numbers.every((n, i) => n === numbers[0] + i * step)
  if (isEven) return `${numbers[0]}, ${numbers[1]} … ${numbers[numbers.length - 1]}`
  /** @type {[number, number][]} */
  const runs = []
  for (const n of numbers) {
    const last = runs[runs.length - 1]
    if (last && last[1] === n - 1) last[1] = n
    else runs.push([n, n])
  }
  const texts = runs.map(([a, b]) => (a === b ? String(a) : `${a}–${b}`))
  return texts.length > 4 ? `${texts[0]}, ${texts[1]} … ${texts[texts.length - 1]}` : texts.join(", ")
}

/** What multiplies rotated channels, all logits beside 1/√d, and queries by their position. @param {Layer} layer */
const scales = ({ attention_factor, softmax_scale, head_dim, query_scale }) => {
  const relative = softmax_scale * Math.sqrt(head_dim)
  const result = []
  if (attention_factor !== 1) result.push(`× ${Number(attention_factor.toPrecision(4))}`)
  if (Math.abs(relative - 1) > 1e-9) result.push(`softmax × ${Number(relative.toPrecision(4))}`)
  if (query_scale?.kind === "head") result.push("queries × head, learned")
  else if (query_scale) result.push(`queries × ${query_scale.kind} from ${threeDigits(query_scale.original_length)}`)
  return result.map((text) => `, ${text}`).join("")
}

/** How many tokens a query may attend to, infinitely many where none are stated. @param {Layer} layer @param {number} trained */
export const reach = ({ window }, trained) => Math.min(window ?? Infinity, trained || Infinity)

/** The cells of a group's row. @param {Group} group @param {number} trained @returns {string[]} */
export const cells = ({ layers, layer, theta }, trained) => {
  const members = `${layers.length} (${ranges(layers)})`
  const window = layer.window ? threeDigits(layer.window) : "all"
  const scale = scales(layer)
  if (!theta.length)
    return [members, `${layer.encoding ?? `none: ${layer.why}`}${scale}`, "–", "–", "–", window, "–", "–", "–"]
  const [start, stop] = layer.slice
  const lowest = Math.min(...theta.filter(Boolean).map(Math.abs))
  const length = reach(layer, trained)
  const incomplete = theta.filter((t) => Math.abs(t) * length < 2 * Math.PI).length
  const rotating =
    2 * theta.length === layer.head_dim ? `all ${layer.head_dim}` : `${2 * theta.length} of ${layer.head_dim}`
  const from = start ? `, from ${start}` : ""
  return [
    members,
    `${layer.encoding}${layer.sections ? ` [${layer.sections.join(", ")}]` : ""}${scale}`,
    layer.base === null ? "–" : threeDigits(layer.base),
    `${rotating}${stop - start === layer.head_dim ? "" : from}`,
    layer.layout ?? "–",
    window,
    threeDigits((2 * Math.PI) / lowest),
    Number.isFinite(length) ? threeDigits((lowest * length) / (2 * Math.PI)) : "–",
    Number.isFinite(length) ? `${Math.round((100 * incomplete) / theta.length)} %` : "–",
  ]
}
