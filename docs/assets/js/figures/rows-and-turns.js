// How the rows of a real model lie, how its code turns them, and what it then writes.

import { axes, dashed, dot, fixed, line, write } from "../kit/plot.js"
import { make } from "../kit/controls.js"

/** @typedef {{ rows: string, code: string, cost: number, curve: number[], writes: string }} Way */

/** @param {import("../kit/stage.js").Stage} stage */
export default function rowsAndTurns(stage) {
  /** @type {{ prompt: string, width: number, rows: string[], codes: string[], ways: Way[],
   *   none: { cost: number, curve: number[] } }} */
  const { prompt, width: bin, rows, codes, ways, none } = stage.data

  stage.predict(
    "The rows lie as in the file, for neighbors. The code turns halves. What does the model write?",
    ["letters without sense", "English without a thread", "the same as before"],
    (answer) => {
      ;[lie.value, code.value] = [rows[0], codes[1]]
      const english = answer.startsWith("English")
      return `${english ? "Yes" : "No"}: English that goes round in circles. Nobody who reads one line of it would look for a bug.`
    },
  )
  const lie = stage.choice("rows", rows)
  const code = stage.choice("code turns", codes)
  const way = () => ways.find((way) => way.rows === lie.value && way.code === code.value)

  const text = stage.add(make("p", { class: "stage-writes" }))
  stage.each(() => text.replaceChildren(prompt, make("b", {}, [way()?.writes ?? " …"])))

  const top = Math.ceil(Math.max(...ways.flatMap((way) => way.curve), ...none.curve))
  stage.canvas({
    label: () => {
      const now = way()
      const ends = now && [now.curve[0], now.curve[now.curve.length - 1]].map((cost) => fixed(cost, 1))
      return ends
        ? `What it costs by position: ${ends[0]} nats a token at first, ${ends[1]} at the end`
        : "This was not measured"
    },
    ratio: () => 210,
    draw: (ctx, width, height, look) => {
      const box = { left: 46, top: 26, width: width - 60, height: height - 72 }
      const places = none.curve.map((_, i) => (i + 0.5) * bin)
      const length = none.curve.length * bin
      const labels = { xlabel: "position in the text", title: "cost, nats a token" }
      const to = axes(ctx, look, box, { x: [0, length], y: [0, top], ...labels })
      dashed(ctx, [5, 4], () => line(ctx, to, places, none.curve, look.soft))
      const end = { align: /** @type {const} */ ("right"), size: 11.5 }
      write(ctx, look, "dashed: nothing turned", box.left + box.width, 12, { ...end, color: look.soft })
      const now = way()
      if (!now) return write(ctx, look, "not measured", box.left + 12, box.top + 20, { color: look.soft })
      line(ctx, to, places, now.curve, look.series[now.cost < 0.05 ? 0 : 1], 2.4)
      for (const [i, cost] of now.curve.entries())
        dot(ctx, to.x(places[i]), to.y(cost), look.series[now.cost < 0.05 ? 0 : 1], 2.6)
    },
  })
  stage.say(() => {
    const now = way()
    const what = `Rows ${lie.value}, turned as ${code.value}`
    if (!now) return `${what}: not measured. Queries and keys disagree here too.`
    if (now.cost < 0.05) return `${what}: the model as it was trained. It costs ${fixed(now.cost, 2)} nats a token.`
    const share = now.cost / none.cost
    const beside = share < 1.5 ? "about as much as" : `${fixed(share, 1)} times as much as`
    return `${what}: it costs ${fixed(now.cost, 1)} nats a token, ${beside} no rotation at all (${fixed(none.cost, 1)}).`
  })
}
