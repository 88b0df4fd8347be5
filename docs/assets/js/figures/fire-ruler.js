// FIRE's learned curve over normalized distances, and where the keys of a query lie on this axis.

import { fireCurve, fireShare } from "../math/biases.js"
import { nailed, sameShare } from "../math/families.js"
import { axes, dashed, dot, fill, line, short, stroke, write } from "../kit/plot.js"

const HIGH = 150 // pixels of the chart

/** @param {import("../kit/stage.js").Stage} stage */
export default function fireRuler(stage) {
  /** @type {{ head: import("../math/biases.js").FireHead, distance: number, longest: number, trained: number }} */
  const { head, distance, longest, trained } = stage.data

  stage.predict(
    `The heads have learned to attend to distance ${distance}, on ${trained} tokens. To which distance does a query at ${longest} attend?`,
    ["a smaller one", `${distance}`, "a larger one"],
    (answer) => {
      raised.value = false
      position.value = longest
      return `${answer === "a larger one" ? "Yes" : "No, a larger one"}: ${peak()}. The normalizer has grown, so distance ${distance} has a smaller normalized distance, and the one that it had belongs to ${peak()} now.`
    },
  )
  const position = stage.film("query m", { min: distance, max: longest, value: Math.floor(head.threshold), rate: 24 })
  const raised = stage.toggle("raise the threshold", false)
  const threshold = stage.slider("to T", { min: Math.ceil(head.threshold), max: longest, value: longest })
  stage.each(() => (threshold.element.hidden = !raised.value))

  const m = () => Math.floor(position.value)
  const now = () => (raised.value ? nailed(head, threshold.value) : head)
  const share = (/** @type {number} */ back) => fireShare(m(), m() - back, now())
  const bias = (/** @type {number} */ back) => fireCurve(share(back), now())
  const peak = () => {
    let best = 0
    for (let back = 1; back <= m(); back++) if (bias(back) > bias(best)) best = back
    return best
  }

  stage.canvas({
    label: () =>
      `The learned bias over normalized distances from 0 to 1. For a query at ${m()} the distance ${distance} has the normalized distance ${share(distance).toFixed(2)}, and the peak is at distance ${peak()}`,
    ratio: () => HIGH + 96,
    draw: (ctx, width, _height, look) => {
      const shares = Array.from({ length: 301 }, (_, i) => i / 300)
      const values = shares.map((x) => fireCurve(x, now()))
      const [low, high] = [Math.min(...values), Math.max(...values)]
      const box = { left: 44, top: 10, width: width - 60, height: HIGH - 10 }
      const to = axes(ctx, look, box, { x: [0, 1], y: [low, high + 0.16 * (high - low)], xticks: [], ylabel: "bias" })
      line(ctx, to, shares, values, look.series[5], 2.4)

      const top = HIGH + 12
      const end = to.x(share(m()))
      fill(ctx, look.ground, box.left, top, end - box.left, 40)
      const nearest = peak()
      const marks = [distance, nearest, m()]
      let free = -Infinity
      for (let back = 0; back <= m(); back++) {
        const x = to.x(share(back))
        const marked = marks.includes(back)
        fill(ctx, look.soft, x - 0.5, top, 1, marked ? 12 : 7)
        dot(ctx, x, to.y(bias(back)), look.series[0], 1.6)
        const room = Math.min(...marks.filter((d) => d > back).map((d) => to.x(share(d)) - x))
        if (!marked && (x < free || room < 24)) continue
        const color = back === distance ? look.letters[1] : back === nearest ? look.letters[0] : look.soft
        const [size, weight] = marked ? [14, 700] : [11.5, 400]
        write(ctx, look, short(back), x, top + 24, { size, weight, align: "center", color })
        free = x + 26
      }
      ;[nearest, distance].forEach((back, i) => {
        const [x, y] = [to.x(share(back)), to.y(bias(back))]
        dashed(ctx, back === distance ? [4, 3] : [], () => stroke(ctx, [x, y], [x, top], look.series[i], 1))
        dot(ctx, x, y, look.series[i], 5)
      })
      write(ctx, look, `distance from m = ${m()}, to the first token`, box.left, top + 56)
      const bold = { weight: 700, halo: true }
      const x = Math.max(box.left + 68, to.x(share(distance)) - 6)
      write(ctx, look, `distance ${distance}`, x, 18, { ...bold, color: look.letters[1], align: "right" })
      const moved = nearest === distance ? "" : `peak at ${nearest}`
      write(ctx, look, moved, to.x(share(nearest)) + 8, 18, { ...bold, color: look.letters[0] })
    },
    arrows: { x: position },
  })
  stage.say(() => {
    const { threshold: usual } = now()
    const reads = sameShare(distance, m(), 0, now()).toFixed(1)
    const back = `distance ${distance} has the normalized distance ${share(distance).toFixed(2)}`
    return `A query at ${m()} attends most to distance ${peak()}. ${
      m() > usual
        ? `Its normalizer is ψ(${m()}), no longer ψ(T) with T = ${usual.toFixed(0)}: ${back}, and gets the bias of ${reads}.`
        : `Its normalizer is ψ(T) with T = ${usual.toFixed(0)}, as ${raised.value ? "raised" : "learned"}: ${back}.`
    }`
  })
}
