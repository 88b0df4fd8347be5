// Which layout the rows of a real model have and which its code, and what it then writes.

import { axes, dashed, dot, fixed, line, write } from "../kit/plot.js"
import { make } from "../kit/controls.js"

/** @typedef {{ rows: string, code: string, cost: number, curve: number[], writes: string }} Way */

/** @param {import("../kit/stage.js").Stage} stage */
export default function rowsAndTurns(stage) {
  /** @type {{ prompt: string, width: number, rows: string[], codes: string[], ways: Way[],
   *   none: { cost: number, curve: number[] } }} */
  const { prompt, width: bin, rows, codes, ways, none } = stage.data

  stage.predict(
    "The rows are interleaved, as in the file. The code pairs halves. What does the model write?",
    ["letters without sense", "English without a thread", "the same as before"],
    (answer) => {
      ;[weights.value, code.value] = [rows[0], codes[1]]
      const english = answer.startsWith("English")
      return `${english ? "Yes" : "No"}: English that goes round in circles. Nobody who reads one line of it would look for a bug.`
    },
  )
  const weights = stage.choice("rows", rows)
  const code = stage.choice("code", codes)
  const way = () => ways.find((way) => way.rows === weights.value && way.code === code.value)

  const text = stage.add(make("p", { class: "stage-writes" }))
  stage.each(() => text.replaceChildren(prompt, make("b", {}, [way()?.writes ?? " …"])))

  const top = Math.ceil(Math.max(...ways.flatMap((way) => way.curve), ...none.curve))
  stage.canvas({
    label: () => {
      const now = way()
      const ends = now && [now.curve[0], now.curve[now.curve.length - 1]].map((cost) => fixed(cost, 1))
      return ends
        ? `What it costs by position: ${ends[0]} nats per token at first, ${ends[1]} at the end`
        : "This was not measured"
    },
    ratio: () => 210,
    draw: (ctx, width, height, look) => {
      const box = { left: 46, top: 26, width: width - 60, height: height - 72 }
      const positions = none.curve.map((_, i) => (i + 0.5) * bin)
      const length = none.curve.length * bin
      const labels = { xlabel: "position in the text", title: "cost, nats per token" }
      const to = axes(ctx, look, box, { x: [0, length], y: [0, top], ...labels })
      dashed(ctx, [5, 4], () => line(ctx, to, positions, none.curve, look.soft))
      const end = { align: /** @type {const} */ ("right"), size: 11.5 }
      write(ctx, look, "dashed: nothing rotated", box.left + box.width, 12, { ...end, color: look.soft })
      const now = way()
      if (!now) return write(ctx, look, "not measured", box.left + 12, box.top + 20, { color: look.soft })
      line(ctx, to, positions, now.curve, look.series[now.cost < 0.05 ? 0 : 1], 2.4)
      for (const [i, cost] of now.curve.entries())
        dot(ctx, to.x(positions[i]), to.y(cost), look.series[now.cost < 0.05 ? 0 : 1], 2.6)
    },
  })
  stage.say(() => {
    const now = way()
    const what = `Rows: ${weights.value}; code: ${code.value}`
    if (!now) return `${what}. Not measured: queries and keys disagree here too.`
    if (now.cost < 0.05)
      return `${what}. This is the model as it was trained. It costs ${fixed(now.cost, 2)} nats per token.`
    const share = now.cost / none.cost
    const beside = share < 1.5 ? "about as much as" : `${fixed(share, 1)} times as much as`
    return `${what}. It costs ${fixed(now.cost, 1)} nats per token, ${beside} no rotation at all (${fixed(none.cost, 1)}).`
  })
}
