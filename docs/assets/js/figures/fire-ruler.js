// FIRE's learned curve stands still over the axis of shares, and the tokens slide along under it.

import { fireCurve, fireShare } from "../math/biases.js"
import { nailed, sameShare } from "../math/families.js"
import { axes, dashed, dot, fill, line, short, stroke, write } from "../kit/plot.js"

const HIGH = 150 // pixels of the chart

/** @param {import("../kit/stage.js").Stage} stage */
export default function fireRuler(stage) {
  /** @type {{ head: import("../math/biases.js").FireHead, distance: number, longest: number, trained: number }} */
  const { head, distance, longest, trained } = stage.data

  stage.predict(
    `The heads have learned “${distance} back” on ${trained} tokens. Which token does a query at place ${longest} look at?`,
    ["a nearer one", `the one ${distance} back`, "a farther one"],
    (answer) => {
      nail.value = false
      place.value = longest
      return `${answer === "a farther one" ? "Yes" : "No, a farther one"}: the one ${peak()} back. The ruler got longer, so ${distance} tokens became a smaller share of it, and the share that once meant ${distance} is further out.`
    },
  )
  const place = stage.film("query m", { min: distance, max: longest, value: Math.floor(head.threshold), rate: 24 })
  const nail = stage.toggle("nail the ruler down", false)
  const threshold = stage.slider("up to T", { min: Math.ceil(head.threshold), max: longest, value: longest })
  stage.each(() => (threshold.element.hidden = !nail.value))

  const m = () => Math.floor(place.value)
  const now = () => (nail.value ? nailed(head, threshold.value) : head)
  const share = (/** @type {number} */ back) => fireShare(m(), m() - back, now())
  const bias = (/** @type {number} */ back) => fireCurve(share(back), now())
  const peak = () => {
    let best = 0
    for (let back = 1; back <= m(); back++) if (bias(back) > bias(best)) best = back
    return best
  }

  stage.canvas({
    label: () =>
      `The learned curve over shares of the way from 0 to 1. For a query at ${m()} the token ${distance} back has the share ${share(distance).toFixed(2)}, and the peak of the curve stands over the token ${peak()} back`,
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
      write(ctx, look, `tokens back from m = ${m()}, to the first`, box.left, top + 56)
      const bold = { weight: 700, halo: true }
      const x = Math.max(box.left + 44, to.x(share(distance)) - 6)
      write(ctx, look, `${distance} back`, x, 18, { ...bold, color: look.letters[1], align: "right" })
      const looks = nearest === distance ? "" : `looks ${nearest} back`
      write(ctx, look, looks, to.x(share(nearest)) + 8, 18, { ...bold, color: look.letters[0] })
    },
    arrows: { x: place },
  })
  stage.say(() => {
    const { threshold: usual } = now()
    const reads = sameShare(distance, m(), 0, now()).toFixed(1)
    const back = `the token ${distance} back has the share ${share(distance).toFixed(2)}`
    const known = nail.value ? "to which it is nailed" : "that it learned"
    return `A query at ${m()} looks ${peak()} back. ${
      m() > usual
        ? `Its ruler is ${m()} long, not the ${usual.toFixed(0)} ${known}: ${back}, and is read as if it stood ${reads} back.`
        : `Its ruler is ${usual.toFixed(0)} long, as ${nail.value ? "nailed down" : "learned"}: ${back}.`
    }`
  })
}
