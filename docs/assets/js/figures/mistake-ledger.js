// What each mistake costs a real model: all of them by size, one of them by position, what it writes, what the doctor says.

import { handle, make } from "../kit/controls.js"
import { axes, dashed, dot, faint, fill, fixed, line, stroke, write } from "../kit/plot.js"

/** Costs in hundredths of a nat; `doctor` is 0 where it says wrong by itself, 1 with a configuration, 2 never.
 * @typedef {{ name: string, cost: number, curve: number[], writes: string, doctor: number, words: string }} Row */

const STRIP = 88 // pixels of the bars

/** @param {import("../kit/stage.js").Stage} stage */
export default function mistakeLedger(stage) {
  /** @type {{ prompt: string, width: number, rows: Row[], first: string, beside: string, bet: string[],
   *   silent: number, doctor: string[] }} */
  const { prompt, width: bin, rows, first, beside, bet, silent, doctor } = stage.data
  const names = rows.map(({ name }) => name) // from the costliest to those that cost nothing
  const nats = (/** @type {number} */ cost, digits = 2) => fixed(cost / 100, digits)

  stage.predict("Which of these costs the most?", bet, (answer) => {
    const most = names.find((name) => bet.includes(name)) ?? ""
    const costs = bet.map((name) => `${name} ${nats(rows[names.indexOf(name)].cost, 1)}`)
    chosen.value = most
    return `${answer === most ? "Yes" : `No: ${most}`}. In nats per token: ${costs.join(", ")}.`
  })
  const chosen = stage.select("mistake", names, first)
  const other = stage.select("beside", names, beside)
  const at = () => names.indexOf(chosen.value)
  const row = () => rows[at()]
  const second = () => rows[names.indexOf(other.value)]

  stage.canvas({
    label: () =>
      `Bars of ${rows.length} changes by what they cost, from ${nats(rows[0].cost, 1)} nats down to none. ` +
      `${chosen.value} is number ${at() + 1}, with ${nats(row().cost)}`,
    ratio: () => STRIP + 26,
    draw: (ctx, width, _height, look) => {
      const step = width / rows.length
      const most = rows[0].cost
      const foot = STRIP + 8
      const tall = (/** @type {number} */ cost) => Math.max(1.5, (cost / most) * (STRIP - 18))
      rows.forEach((each, n) => {
        const high = tall(each.cost)
        const isSeen = each === row() || each === second()
        const color = each === second() && each !== row() ? look.series[0] : look.series[1]
        faint(ctx, isSeen ? 1 : 0.35, () => fill(ctx, color, n * step + 1, foot - high, step - 2, high))
      })
      stroke(ctx, [0, foot], [width, foot], look.rule, 1)
      const x = (at() + 0.5) * step
      const align = x < width / 2 ? "left" : "right"
      const text = `${at() + 1} of ${rows.length}: ${nats(row().cost)} nats`
      write(ctx, look, text, x, foot + 10, { align, size: 11.5, weight: 700, color: look.letters[1] })
    },
    point: ({ x, width, down }) => {
      if (down) chosen.value = names[Math.min(rows.length - 1, Math.max(0, Math.floor((x / width) * rows.length)))]
    },
    arrows: { x: handle(at, (n) => (chosen.value = names[n] ?? chosen.value)) },
  })

  stage.canvas({
    label: () => {
      const ends = [row().curve[0], row().curve[row().curve.length - 1]].map((cost) => nats(cost))
      return `What ${chosen.value} costs by position: ${ends[0]} nats per token at first, ${ends[1]} at the end`
    },
    ratio: () => 196,
    draw: (ctx, width, height, look) => {
      const box = { left: 46, top: 28, width: width - 58, height: height - 74 }
      const all = [...row().curve, ...second().curve].map((cost) => cost / 100)
      const y = [Math.min(0, ...all), Math.max(0.3, ...all) * 1.08]
      const positions = row().curve.map((_, i) => (i + 0.5) * bin)
      const labels = { xlabel: "position in the text", title: "cost, nats per token" }
      const xticks = [0, 128, 256, 384, 512]
      const to = axes(ctx, look, box, { x: [0, row().curve.length * bin], y, xticks, ...labels })
      stroke(ctx, [box.left, to.y(0)], [box.left + box.width, to.y(0)], look.rule, 1)
      const scaled = (/** @type {Row} */ { curve }) => curve.map((cost) => cost / 100)
      if (second() !== row()) dashed(ctx, [5, 4], () => line(ctx, to, positions, scaled(second()), look.series[0]))
      line(ctx, to, positions, scaled(row()), look.series[1], 2.4)
      for (const [i, cost] of scaled(row()).entries()) dot(ctx, to.x(positions[i]), to.y(cost), look.series[1], 2.6)
      const end = { size: 11.5, align: /** @type {const} */ ("right"), color: look.letters[0] }
      write(ctx, look, "dashed: beside", box.left + box.width, 12, end)
    },
  })
  const text = stage.add(make("p", { class: "stage-writes" }))
  stage.each(() => text.replaceChildren(prompt, make("b", {}, [row().writes])))
  stage.say(() => {
    const { cost, curve, words } = row()
    const [start, end] = [curve[1], curve[curve.length - 1]]
    const size = cost < silent ? "Silent on this text" : `Costs ${nats(cost)} nats per token`
    const by =
      cost < silent ? `${nats(cost)} nats per token` : `${nats(start)} near token ${1.5 * bin}, ${nats(end)} at the end`
    return `${chosen.value}. ${size}: ${by}. ${doctor[row().doctor]}${words ? `: “${words}”` : ""}.`
  })
}
