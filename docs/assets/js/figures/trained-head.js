// Two heads learn two offsets: at first both the same one. Bars are their attention weights by offset, the lines
// below those on the way of training.

import { axes, dashed, dot, faint, fill, frame, line, write } from "../kit/plot.js"
import { handle } from "../kit/controls.js"

/** @import { Box, Ctx, Look } from "../kit/plot.js" */
/** @typedef {{ losses: number[], looks: number[][][] }} Run weights by snapshot, head and offset */

const HEADS = ["A", "B"]

/** @param {import("../kit/stage.js").Stage} stage */
export default function trainedHead(stage) {
  /** @type {{ steps: number[], back: number, wanted: [number, number], guess: number, runs: Run[] }} */
  const { steps, back, wanted, guess, runs } = stage.data
  const [most, every] = [steps[steps.length - 1], steps[1] - steps[0]]
  const worst = Math.max(guess, ...runs.flatMap(({ losses }) => losses))
  const tie = (/** @type {Run} */ { looks }) => {
    const less = looks.map((heads) => Math.min(...heads.map((weights) => weights[wanted[0]])))
    return less.indexOf(Math.max(...less))
  }

  stage.predict(
    "On its way down the loss hesitates near half of its start. What do the heads attend to then?",
    ["one to each offset", `both ${wanted[0]} back`, "both a bit to each"],
    (answer) => {
      step.value = steps[tie(run())]
      const verdict = answer === `both ${wanted[0]} back` ? "Yes" : "Look"
      const other = Math.max(...heads().map((weights) => weights[wanted[1]]))
      return `${verdict}: at step ${step.value} both attend ${wanted[0]} back. No head gives more than ${other.toFixed(2)} to the token ${wanted[1]} back.`
    },
  )
  const step = stage.film("step of training", { min: 0, max: most, value: 0, step: every, rate: 4 * every })
  const start = stage.choice(
    "random start",
    runs.map((_run, n) => /** @type {[string, string]} */ ([String(n), n ? String(n + 1) : "1, as above"])),
  )
  const run = () => runs[Number(start.value)]
  const now = () => Math.floor(step.value / every)
  const heads = () => run().looks[now()]

  const boxes = (/** @type {number} */ width) => {
    const wide = width >= 560
    const share = wide ? width * 0.44 : width
    const bars = { left: 6, top: 26, width: share - 12, height: 232 }
    const left = wide ? share + 48 : 42
    const room = width - left - 30 // the names of the heads stand beside it
    const below = wide ? 26 : 320
    return {
      bars,
      weights: { left, top: below, width: room, height: 112 },
      losses: { left, top: below + 154, width: room, height: 78 },
      height: below + 272,
    }
  }

  stage.canvas({
    label: () =>
      `Step ${now() * every}. ${HEADS.map((name, n) => `Head ${name} gives ${wanted.map((k) => `${heads()[n][k].toFixed(2)} to the token ${k} back`).join(", ")}`).join(". ")}. Loss ${run().losses[now()].toFixed(2)}`,
    ratio: (width) => boxes(width).height,
    draw: (ctx, width, _height, look) => {
      const { bars, weights, losses } = boxes(width)
      butterfly(ctx, look, bars)
      const span = { x: [0, most], xticks: [0, most / 3, (2 * most) / 3, most] }
      const to = axes(ctx, look, weights, {
        ...span,
        y: [0, 1],
        yticks: [0, 0.5, 1],
        title: `weight at offset ${wanted[0]}, dashed ${wanted[1]}`,
      })
      wanted.forEach((k, nth) =>
        HEADS.forEach((name, n) => {
          const curve = run().looks.map((both) => both[n][k])
          dashed(ctx, nth ? [5, 4] : [], () => line(ctx, to, steps, curve, look.series[n], 1.8))
          dot(ctx, to.x(now() * every), to.y(curve[now()]), look.series[n], 4)
          const end = { x: to.x(most) + 8 + 11 * n, y: to.y(curve[curve.length - 1]) }
          write(ctx, look, name, end.x, end.y, { weight: 700, color: look.letters[n] })
        }),
      )
      const down = axes(ctx, look, losses, {
        ...span,
        y: [0, worst],
        yticks: [0, guess / 2, guess],
        yformat: (v) => v.toFixed(1),
        xlabel: "step",
        title: "loss",
      })
      for (const level of [guess / 2, guess])
        dashed(ctx, [2, 3], () => line(ctx, down, [0, most], [level, level], look.soft, 0.9))
      line(ctx, down, steps, run().losses, look.ink, 1.8)
      dot(ctx, down.x(now() * every), down.y(run().losses[now()]), look.ink, 4)
      const guessing = { align: /** @type {const} */ ("right"), size: 11, color: look.soft, halo: true }
      const end = losses.left + losses.width
      write(ctx, look, "guessing one answer of two", end, down.y(guess / 2) - 8, guessing)
    },
    point: ({ x, y, width, down }) => {
      const { weights } = boxes(width)
      if (!down || x < weights.left - 12 || y < weights.top) return
      step.pause()
      step.value = Math.round((((x - weights.left) / weights.width) * most) / every) * every
    },
    arrows: { x: handle(now, (n) => (step.value = n * every)) },
  })

  /** A text that ends at the query; above it the weights of head A, below it those of head B.
   * @type {(ctx: Ctx, look: Look, box: Box) => void} */
  const butterfly = (ctx, look, box) => {
    const cell = box.width / (back + 1)
    const size = Math.min(26, cell - 6)
    const middle = box.top + box.height / 2
    const room = box.height / 2 - size / 2 - 6
    for (let k = 0; k <= back; k++) {
      const x = box.left + (back - k + 0.5) * cell
      const target = wanted.includes(k)
      frame(ctx, target ? look.ink : look.rule, target ? 2 : 1, x - size / 2, middle - size / 2, size, size)
      const weight = target ? 700 : 400
      write(ctx, look, k ? String(k) : "here", x, middle, { size: k ? 12 : 11, align: "center", weight })
      HEADS.forEach((_name, n) => {
        const tall = heads()[n][k] * room
        faint(ctx, target ? 1 : 0.45, () =>
          fill(ctx, look.series[n], x - size / 2, n ? middle + size / 2 + 3 : middle - size / 2 - 3 - tall, size, tall),
        )
        const text = heads()[n][k].toFixed(2)
        const y = n ? middle + size / 2 + tall + 12 : middle - size / 2 - tall - 12
        if (target) write(ctx, look, text, x, y, { align: "center", size: 11.5, color: look.letters[n], weight: 700 })
      })
    }
    write(ctx, look, "attention weight by offset", box.left, box.top - 7, { size: 12.5, weight: 700, base: "bottom" })
    HEADS.forEach((name, n) => {
      const y = n ? box.top + box.height - 8 : box.top + 8
      write(ctx, look, `head ${name}`, box.left, y, { weight: 700, color: look.letters[n] })
    })
  }

  /** A head has found an offset if one of the wanted keys gets the most of it, and twice an even share. */
  const verdict = () => {
    const found = heads().map((weights) =>
      wanted.find((k) => weights[k] === Math.max(...weights) && weights[k] > 2 / weights.length),
    )
    if (found.every((offset) => offset === undefined)) return "Neither head has found an offset."
    if (found.includes(undefined))
      return `Only head ${HEADS[found.findIndex((offset) => offset !== undefined)]} has found an offset.`
    return found[0] === found[1] ? `Both attend ${found[0]} back.` : "Each has found one of the two offsets."
  }
  stage.say(() => {
    const shares = heads().map((weights) => wanted.map((k) => weights[k].toFixed(2)).join(" and "))
    const both = HEADS.map((name, n) => `head ${name} ${shares[n]}`)
    return `Step ${now() * every}, loss ${run().losses[now()].toFixed(2)}. Weights ${wanted.join(" and ")} back: ${both.join(", ")}. ${verdict()}`
  })
}
