// Average neighboring rows of pure noise: its components become half a wave, a wave, one and a half, without training.

import { heat } from "../kit/heat.js"
import { axes, line, write } from "../kit/plot.js"
import { blended, centered, eigen, noise, overtone } from "../math/components.js"
import { products } from "../math/products.js"

const WAVES = ["half a wave", "one wave", "one and a half"]
const SHOWN = WAVES.length
const FREE = [0.8, 0.5, 0.36] // places where these waves leave room for a word
const LANE = 0.5 // of the components' chart, for each of them: they have length one

/** @typedef {{ products: Float64Array, profiles: Float64Array[], likeness: number[] }} Components */

/** @param {import("../kit/stage.js").Stage} stage */
export default function smoothTables(stage) {
  /** @type {{ rows: number, channels: number, margin: number, reach: number, trained: number[][] }} */
  const { rows, channels, margin, reach, trained } = stage.data
  const places = Array.from({ length: rows }, (_, p) => p)
  const overtones = WAVES.map((_, j) => overtone(j + 1, rows))
  const learned = look(trained.flat(), trained[0].length, overtones)
  let seed = 0
  let drawn = noise(rows, channels, margin, seed)
  let latest = { key: "", components: learned }

  stage.predict(
    `Average each of ${rows} rows of noise with its neighbors. What do the three strongest components become?`,
    ["smooth, other curves for other noise", "straight lines", "waves, whatever the noise"],
    (answer) => {
      kind.value = "noise"
      blend.value = reach
      return `${answer.startsWith("waves") ? "Yes:" : "Look:"} half a wave, one wave, one and a half. Try fresh noise.`
    },
  )
  const kind = stage.choice("table", [
    ["noise", "noise, averaged"],
    ["trained", "trained on English"],
  ])
  const blend = stage.film("rows averaged each way", {
    min: 0,
    max: reach,
    value: 0,
    step: 0.25,
    rate: reach / 8,
    show,
  })
  stage.button("Fresh noise", () => {
    drawn = noise(rows, channels, margin, ++seed)
    kind.value = "noise"
  })
  const strongest = () => {
    if (kind.value === "trained") return learned
    const key = `${seed} ${blend.value}`
    if (latest.key !== key)
      latest = { key, components: look(blended(drawn, channels, margin, blend.value), channels, overtones) }
    return latest.components
  }
  stage.each(() => {
    for (const control of [blend.input, blend.play]) control.toggleAttribute("disabled", kind.value === "trained")
  })

  stage.canvas({
    label: () => `Products of all pairs of rows, and the three strongest components. ${reading()}`,
    ratio: (width) => (width < 520 ? 200 + 290 : Math.min(270, width * 0.42)),
    draw: (ctx, width, height, style) => {
      const narrow = width < 520
      const side = narrow ? 150 : height - 66
      const left = narrow ? (width - side) / 2 : 36
      const { products, profiles, likeness } = strongest()
      const most = products.reduce((a, b) => Math.max(a, Math.abs(b)), 0)
      const box = { left, top: 26, width: side, height: side }
      heat(ctx, box, products, rows, { low: -most, high: most })
      const ends = [0, rows - 1]
      const range = [-0.5, rows - 0.5]
      const turned = [rows - 0.5, -0.5]
      axes(ctx, style, box, { x: range, y: turned, xticks: ends, yticks: ends, title: "Products of rows" })

      const chart = narrow
        ? { left: 14, top: 230, width: width - 28, height: height - 230 - 40 }
        : { left: left + side + 34, top: 26, width: width - left - side - 46, height: side }
      const to = axes(ctx, style, chart, {
        x: [0, rows - 1],
        y: [-LANE * SHOWN - 0.1, 0.1],
        xticks: ends,
        yticks: [],
        xlabel: "position p",
        title: "Principal components",
      })
      profiles.forEach((profile, j) => {
        const raised = (/** @type {Float64Array} */ values) => values.map((value) => value - LANE * (j + 0.5))
        line(ctx, to, places, raised(overtones[j]), style.rule, 6)
        line(ctx, to, places, raised(profile), style.series[j], 2)
      })
      likeness.forEach((match, j) => {
        const label = `${match.toFixed(2)} like ${WAVES[j]}`
        const [x, y] = [chart.left + FREE[j] * chart.width, to.y(-LANE * j) + 10]
        write(ctx, style, label, x, y, { color: style.letters[j], align: "center", halo: true })
      })
    },
    arrows: { x: blend },
  })

  const reading = () => {
    const numbers = strongest().likeness.map((value) => value.toFixed(2))
    const matches = `agree ${numbers.slice(0, -1).join(", ")} and ${numbers.at(-1)} with ${WAVES.slice(0, -1).join(", ")} and ${WAVES.at(-1)}`
    if (kind.value === "trained")
      return `Trained on English: its components ${matches}. Its first component is a straight line, and no second wave follows.`
    const far = `${show(blend.value)} ${blend.value === 1 ? "row" : "rows"}`
    const state = blend.value ? `Noise averaged over ${far} each way` : "Pure noise"
    return `${state}: its components ${matches} (1: perfectly).`
  }
  stage.say(reading)
}

const show = (/** @type {number} */ value) => String(Math.round(value * 4) / 4)

/** @param {ArrayLike<number>} table @param {number} dim @param {Float64Array[]} overtones @returns {Components} */
const look = (table, dim, overtones) => {
  const rows = centered(table, dim)
  const pairs = products(rows, rows, dim)
  const { vectors } = eigen(pairs, overtones[0].length)
  const turns = overtones.map((wave, j) => wave.reduce((sum, value, p) => sum + value * vectors[j][p], 0))
  const profiles = turns.map((turn, j) => vectors[j].map((value) => (turn < 0 ? -value : value)))
  return { products: pairs, profiles, likeness: turns.map(Math.abs) }
}
