// What is left of a weight, one curve a head: a slider picks the head.

import { axes, line } from "../kit/plot.js"

const BACK = 64 // tokens

/** @param {import("../kit/stage.js").Stage} stage */
export default function fadingHeads(stage) {
  /** @type {number[]} */
  const slopes = stage.data
  const back = Array.from({ length: BACK }, (_, n) => n)
  const head = stage.slider("head", { min: 0, max: slopes.length - 1, value: 0 })
  const left = (/** @type {number} */ slope) => back.map((n) => Math.exp(-slope * n))

  stage.canvas({
    label: () => `${slopes.length} falling curves, that of head ${head.value} in color`,
    ratio: 0.4,
    draw: (ctx, width, height, look) => {
      const box = { left: 44, top: 12, width: width - 56, height: height - 56 }
      const to = axes(ctx, look, box, { x: [0, BACK], y: [0, 1], xlabel: "tokens back", ylabel: "share that is left" })
      for (const slope of slopes) line(ctx, to, back, left(slope), look.soft, 0.8)
      line(ctx, to, back, left(slopes[head.value]), look.series[0])
    },
  })
  stage.say(() => `Head ${head.value} halves a weight every ${(Math.log(2) / slopes[head.value]).toFixed(1)} tokens.`)
}
