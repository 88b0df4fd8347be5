// Paste a config.json: a row of layers, a table of those that are alike, wavelengths, pairs as vectors, and warnings.

import { make } from "../kit/controls.js"
import { dial } from "../kit/dial.js"
import { axes, dashed, fill, line, short, whole, write } from "../kit/plot.js"
import { cells, groups, ranges, reach, towers } from "../config/groups.js"
import { plan } from "../config/plan.js"

/** @import { Group } from "../config/groups.js" */
/** @import { Plan } from "../config/layer.js" */
/** @import { Ctx, Look } from "../kit/plot.js" */
/** @import { Stage } from "../kit/stage.js" */
/** @typedef {Record<string, Record<string, any>>} Named */
/** @typedef {{ samples: Named, start: string, rules: import("../config/rules.js").Rules }} Data */

const CHART = 280 // pixels of height
const ROW = 84 // of dials
const MOST = 3 // rows of dials
const DIALS = 8
const OTHER = /^plan: config must be (in the keys|of one of)|^plan: model_type .* got None/
const OTHERS = "A file of another format (Meta, GGUF, Megatron) is read by posenc read."
const REST = 300 // milliseconds after the last key
const HEADS = [
  "Layers",
  "Encoding",
  "Base",
  "Channels rotated",
  "Layout",
  "Window",
  "Longest wavelength",
  "Rotations completed",
  "Incomplete pairs",
]

/** @type {Record<string, Record<string, string>>} cells that a narrow screen leaves out */
const EMPTY = { "–": { class: "reader-empty" } }

/** @param {Stage} stage */
export default function readConfig(stage) {
  const { samples, start, rules } = /** @type {Data} */ (stage.data)
  const box = field(stage, samples, start, () => read())
  const message = stage.add(make("p", { class: "reader-told", role: "status" }))
  const result = stage.add(make("div", { class: "reader-shown" }))
  /** @type {{ tower: string, groups: Group[], trained: number }[]} */
  let parts = []
  const sum = () => parts.flatMap((tower) => tower.groups)
  const rotating = () => sum().filter((group) => group.theta.length && !onGrid(group))
  const rows = () => rotating().slice(0, MOST)
  const trained = () => Math.max(0, ...parts.map((tower) => tower.trained))

  const read = () => {
    parts = []
    try {
      const reading = plan(parsed(box.value), rules)
      parts = towers(reading).map(({ name, plan }) => ({
        tower: name,
        groups: groups(plan),
        trained: plan.trained ?? 0,
      }))
      message.textContent = summary(reading, parts)
      message.classList.remove("reader-refused")
      result.replaceChildren(...parts.flatMap(layersOf), warningsOf(reading))
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      message.textContent = OTHER.test(reason) ? `${reason}. ${OTHERS}` : reason
      message.classList.add("reader-refused")
      result.replaceChildren()
    }
    if (parts.length) place.max = Math.max(64, trained())
    place.value = Math.min(place.value, place.max)
    stage.changed()
  }

  const place = stage.slider("position", { min: 1, max: 131_072, value: 1_000, log: true, show: whole })
  stage.canvas({
    label: () => `Pairs of ${rotating().length} groups of layers as vectors at position ${whole(place.value)}`,
    ratio: () => (rotating().length ? CHART + ROW * rows().length : 0),
    draw: (ctx, width, _height, look) => {
      if (!rotating().length) return
      wavelengths(ctx, look, width, CHART, rotating(), trained())
      rows().forEach((group, n) =>
        vectors(ctx, look, width, CHART + ROW * n, group, Math.round(place.value), trained()),
      )
    },
  })
  stage.say(() => (parts.length ? sentence(rotating()[0], Math.round(place.value), trained()) : ""))
  read()
}

/** Whether it rotates by the rows and columns of a picture, and not by the slider's position. @param {Group} group */
const onGrid = ({ layer }) => layer.encoding === "Axial" && !layer.sections

/** The text and the published configurations above it.
 * @type {(stage: Stage, samples: Data["samples"], start: string, changed: () => void) => HTMLTextAreaElement} */
const field = (stage, samples, start, changed) => {
  const written = (/** @type {string} */ name) =>
    JSON.stringify(samples[name], null, 2).replace(/\[[^[\]{}]*\]/g, (list) => list.replace(/\s+/g, " "))
  const text = /** @type {HTMLTextAreaElement} */ (
    make("textarea", { class: "reader-text", rows: "12", spellcheck: "false", "aria-label": "config.json" })
  )
  text.value = written(start)
  const sample = stage.select("published", Object.keys(samples), start)
  const enter = (/** @type {string} */ value) => {
    text.value = value
    changed()
  }
  sample.input.addEventListener("change", () => enter(written(sample.value)), { signal: stage.signal })
  stage.button("Clear", () => (enter(""), text.focus()))
  stage.add(text)
  let wait = 0
  const rest = () => {
    clearTimeout(wait)
    wait = setTimeout(changed, REST)
  }
  text.addEventListener("input", rest, { signal: stage.signal })
  stage.signal.addEventListener("abort", () => clearTimeout(wait), { once: true })
  return text
}

/** @param {string} text @returns {Record<string, any>} */
const parsed = (text) => {
  if (!text.trim()) throw new Error("Paste a config.json above. Nothing of it leaves this page.")
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new Error(`This is no JSON yet: ${error instanceof Error ? error.message : error}`)
  }
}

/** @param {Plan} plan @param {{ groups: Group[] }[]} towers */
const summary = (plan, towers) => {
  const all = towers.flatMap((tower) => tower.groups)
  const count = (/** @type {(group: Group) => boolean} */ test) =>
    all.filter(test).reduce((sum, { layers }) => sum + layers.length, 0)
  const [layers, rotate] = [count(() => true), count(({ theta }) => theta.length > 0)]
  const share = rotate === layers ? "all of them rotate queries and keys" : `${rotate} rotate queries and keys`
  const ways = [...new Set(all.filter(({ theta }) => theta.length).map(({ layer }) => layer.why))]
  const read = ways.length ? ` Read: ${ways.join("; ")}.` : ""
  return `${plan.model_type}: ${layers} layers, ${rotate ? share : "none rotates queries and keys"}.${read}`
}

/** The row of layers and the table of one tower. @param {{ tower: string, groups: Group[], trained: number }} tower */
const layersOf = ({ tower, groups: all, trained }) => {
  const order = all.flatMap((group, n) => group.layers.map((index) => ({ index, n }))).sort((a, b) => a.index - b.index)
  const row = make(
    "div",
    { class: "reader-layers", role: "img", "aria-label": all.map((group) => cells(group, trained)[0]).join("; ") },
    order.map(({ index, n }) => make("i", { class: `reader-kind-${n % 6}`, title: `layer ${index}` })),
  )
  const rows = all.map((group, n) =>
    make("tr", {}, [
      make("th", { scope: "row" }, [make("i", { class: `reader-kind-${n % 6}` }), cells(group, trained)[0]]),
      ...cells(group, trained)
        .slice(1)
        .map((text, column) => make("td", { "data-head": HEADS[column + 1], ...EMPTY[text] }, [text])),
    ]),
  )
  const heads = HEADS.map((head) => make("th", { scope: "col" }, [head]))
  const table = make("table", {}, [make("thead", {}, [make("tr", {}, heads)]), make("tbody", {}, rows)])
  const title = tower ? [make("p", { class: "reader-tower" }, [tower])] : []
  return [...title, row, make("div", { class: "reader-table" }, [table])]
}

/** @param {Plan} plan */
const warningsOf = (plan) => {
  const all = towers(plan).flatMap(({ plan }) => plan.warnings)
  const items = [...new Set([...plan.warnings, ...all])].map((text) => make("li", {}, [text]))
  return make("ul", { class: "reader-warnings", "aria-label": "Warnings" }, items)
}

/** The wavelength of each pair.
 * @type {(ctx: Ctx, look: Look, width: number, height: number, all: Group[], trained: number) => void} */
const wavelengths = (ctx, look, width, height, all, trained) => {
  const most = Math.max(...all.map(({ theta }) => theta.length))
  const lengths = all.map(({ theta }) => theta.map((t) => (t ? (2 * Math.PI) / Math.abs(t) : NaN)))
  const top = Math.max(trained, ...lengths.flat().filter(Number.isFinite)) * 1.6
  const box = { left: 68, top: 22, width: width - 78, height: height - 76 }
  const decades = Array.from({ length: 14 }, (_, n) => 10 ** n).filter((v) => v > 6 && v < top)
  const up = (/** @type {number} */ v) => Math.log10(v)
  const to = axes(ctx, look, box, {
    x: [0, Math.max(1, most - 1)],
    y: [up(5), up(top)],
    yticks: decades.map(up),
    yformat: (v) => short(10 ** v),
    xlabel: "pair",
    title: "wavelength in tokens",
  })
  if (trained) {
    fill(ctx, look.ground, box.left + 1, box.top, box.width, Math.max(0, to.y(up(trained)) - box.top))
    dashed(ctx, [4, 4], () => line(ctx, to, [0, most], [up(trained), up(trained)], look.soft, 1.2))
    const more = box.width > 400 ? ": pairs above complete no rotation" : ""
    const label = `longest text ${whole(trained)}${more}`
    write(ctx, look, label, box.left + 6, to.y(up(trained)) - 8, { size: 11.5, color: look.soft, halo: true })
  }
  lengths.forEach((wavelength, n) =>
    line(ctx, to, [...wavelength.keys()], wavelength.map(up), look.series[all[n].color % 6], 2.4),
  )
}

/** The vectors of a few pairs at one position; the arc is the range of angles within window or longest text.
 * @type {(ctx: Ctx, look: Look, width: number, top: number, group: Group, position: number, trained: number) => void}
 */
const vectors = (ctx, look, width, top, { layers, layer, theta, color }, position, trained) => {
  const longest = reach(layer, trained)
  const count = Math.min(DIALS, theta.length)
  const step = (width - 20) / count
  const radius = Math.min(26, step * 0.42)
  const mark = { color: look.letters[color % 6], size: 11.5, weight: 600 }
  write(ctx, look, `layers ${ranges(layers)}`, 10, top + 2, mark)
  for (let n = 0; n < count; n++) {
    const pair = count > 1 ? Math.round((n * (theta.length - 1)) / (count - 1)) : 0
    const [x, y] = [10 + step * (n + 0.5), top + 40]
    const arc = Number.isFinite(longest) ? Math.min(2 * Math.PI, Math.abs(theta[pair]) * longest) : 0
    ctx.beginPath()
    ctx.moveTo(x, y)
    ctx.arc(x, y, radius, 0, theta[pair] < 0 ? arc : -arc, theta[pair] > 0)
    ctx.fillStyle = look.ground
    ctx.fill()
    dial(ctx, look, x, y, radius, theta[pair] * position, look.series[color % 6], 0.92)
    write(ctx, look, `pair ${pair}`, x, y + radius + 10, { align: "center", size: 11, color: look.soft })
  }
}

/** @param {Group | undefined} group @param {number} position @param {number} trained */
const sentence = (group, position, trained) => {
  if (!group) return "No layer rotates queries and keys by their position in a text."
  const lowest = Math.min(...group.theta.filter(Boolean).map(Math.abs))
  const completed = (lowest * position) / (2 * Math.PI)
  const longest = trained
    ? ` In a text of ${whole(trained)} tokens it completes ${short((lowest * trained) / (2 * Math.PI))}.`
    : ""
  const pair = `the pair of lowest frequency in layer ${group.layers[0]}`
  return `At position ${whole(position)} ${pair} has completed ${short(completed)} rotations.${longest}`
}
