// The phase biases of a layer while it learns: a row for each channel, bright where they raise the logit at offset k,
// and the edges of the clamp.

import { axes, dot, percent, stroke, write } from "../kit/plot.js"
import { heat } from "../kit/heat.js"
import { TURN, gives, outside, tops, unpacked } from "../math/phases.js"

/** @import { Ctx, Look } from "../kit/plot.js" */
/** @import { Held } from "../math/phases.js" */
/** @typedef {{ held: Held, back: number, right: number, loss: number[], phases: string }} Run */

const ROW = 15 // pixels
const FINE = 240 // columns of the picture
const EDGES = [-TURN - 0.7, Math.PI]

/** @param {import("../kit/stage.js").Stage} stage */
export default function phaseWall(stage) {
  /** @type {{ steps: number[], theta: number[], zero: number, step: number, runs: Run[] }} */
  const { steps, theta, zero, step, runs } = stage.data
  const last = steps.length - 1
  const backs = [...new Set(runs.map(({ back }) => back))]
  const read = new Map(runs.map((run) => [run, unpacked(run.phases, zero, step)]))
  const run = (by = holder.value, k = Number(back.value)) =>
    /** @type {Run} */ (runs.find((item) => item.held === by && item.back === k))

  stage.predict(
    `With the clamp the layer fails at offset ${backs[0]}. How does it do at offset ${backs[1]}, which is further?`,
    ["worse", "as badly", "well"],
    (answer) => {
      ;[holder.value, back.value, film.value] = ["clamp", String(backs[1]), last]
      return `${answer === "well" ? "Yes, well" : "No, well"}: ${percent(run().right, 1)} right. Look at the channel of highest frequency, at the top. Its best phase bias above 0 lies past the edge of the clamp, but the one below 0 is now the nearer.`
    },
  )
  const back = stage.choice("offset k", backs.map(String))
  const holder = stage.choice("bound of the phase biases", ["clamp", "free"])
  const show = (/** @type {number} */ at) => String(steps[Math.floor(at)])
  const film = stage.film("training step", { min: 0, max: last, value: last, rate: 2.5, show })
  const at = () => Math.floor(film.value)
  const heads = () => /** @type {number[]} */ (read.get(run())).length / steps.length / theta.length
  const now = () => {
    const all = /** @type {number[]} */ (read.get(run()))
    const size = all.length / steps.length
    return all.slice(at() * size, (at() + 1) * size) // (head, channel)
  }
  const out = () => outside(now()).filter(Boolean).length

  stage.canvas({
    label: () =>
      `${theta.length} channels, the highest frequency on top, with a dot for the phase bias of each head after ${steps[at()]} steps. ${out()} of ${now().length} dots lie outside the range from −2π to 0`,
    ratio: (wide) => theta.length * ROW + (wide > 480 ? 92 : 112),
    draw: (ctx, wide, _height, look) => {
      const box = { left: 46, top: 22, width: wide - 60, height: theta.length * ROW }
      const [k, bound] = [Number(back.value), /** @type {Held} */ (holder.value)]
      const across = Array.from({ length: FINE }, (_, i) => EDGES[0] + ((i + 0.5) / FINE) * (EDGES[1] - EDGES[0]))
      const loud = theta.flatMap((frequency) => across.map((stored) => gives(k, frequency, stored, bound)))
      heat(ctx, box, loud, FINE, { map: "viridis", low: -1, high: 1 })
      const to = axes(ctx, look, box, {
        x: EDGES,
        y: [theta.length, 0],
        xticks: [-TURN, -Math.PI, 0, Math.PI],
        xformat: (v) => ["−2π", "−π", "0", "π"][Math.round(v / Math.PI) + 2],
        yticks: [],
        xlabel: "stored phase bias",
      })
      write(ctx, look, "high θ", box.left - 6, to.y(0.5), { align: "right", size: 11 })
      write(ctx, look, "low θ", box.left - 6, to.y(theta.length - 0.5), { align: "right", size: 11 })
      const clamped = bound === "clamp"
      for (const edge of clamped ? [-TURN, 0] : [])
        stroke(ctx, [to.x(edge), box.top - 6], [to.x(edge), to.y(theta.length)], look.series[1], 2.4)
      if (clamped) write(ctx, look, "edge", to.x(0), 8, { align: "center", color: look.letters[1], weight: 700 })
      theta.forEach((frequency, c) => {
        for (const top of tops(k, frequency)) if (top > EDGES[0] && top < EDGES[1]) notch(ctx, to.x(top), to.y(c + 0.5))
      })
      const stuck = outside(now())
      now().forEach((stored, i) => {
        const [h, c] = [Math.floor(i / theta.length), i % theta.length]
        const [x, y] = [to.x(Math.min(EDGES[1], stored)), to.y(c + (h + 1) / (heads() + 1))]
        dot(ctx, x, y, "#fff", 3.4)
        dot(ctx, x, y, clamped && stuck[i] ? "#d1495b" : "#14202b", 2.4)
      })
      legend(ctx, look, wide, box.top + box.height + 48, clamped)
    },
    arrows: { x: film },
  })
  stage.say(() => {
    const [count, all] = [out(), now().length]
    const where = `After ${steps[at()]} ${steps[at()] === 1 ? "step" : "steps"} ${count} of ${all} phase biases lie outside −2π to 0`
    const ends = at() === last ? ` At the end the layer is right in ${percent(run().right, 1)} of the cases.` : ""
    const what =
      holder.value === "free"
        ? ", and each of them can still move."
        : count
          ? ": the model uses 0 or −2π for them, and no gradient comes back."
          : "."
    return `${where}${what} The loss is ${run().loss[at()].toFixed(2)} nats.${ends}`
  })
}

/** A mark where the cosine of a channel is 1. @param {Ctx} ctx @param {number} x @param {number} y */
const notch = (ctx, x, y) => stroke(ctx, [x, y - 5], [x, y + 5], "#14202b", 1)

/** @type {(ctx: Ctx, look: Look, wide: number, y: number, clamped: boolean) => void} */
const legend = (ctx, look, wide, y, clamped) => {
  const two = wide <= 480
  const mark = [
    (/** @type {number} */ x, /** @type {number} */ row) => dot(ctx, x + 6, row, look.ink, 3),
    (/** @type {number} */ x, /** @type {number} */ row) => dot(ctx, x + 6, row, "#d1495b", 3),
    (/** @type {number} */ x, /** @type {number} */ row) => {
      heat(ctx, { left: x, top: row - 6, width: 12, height: 12 }, [1], 1, { map: "viridis", low: -1, high: 1 })
      notch(ctx, x + 6, row)
    },
  ]
  const labels = ["phase bias of a head", "no gradient", "bright: high logit at offset k"]
  const places = two ? [8, 170, 8] : [40, 200, 310]
  labels.forEach((text, i) => {
    if (i === 1 && !clamped) return
    const row = y + (two && i === 2 ? 20 : 0)
    mark[i](places[i], row)
    write(ctx, look, text, places[i] + 19, row)
  })
}
