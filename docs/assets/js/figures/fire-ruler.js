// FIRE's learned curve stands still over the axis of shares, and the tokens slide along under it.

import { fireCurve, fireShare } from "../math/biases.js"
import { nailed, sameShare } from "../math/families.js"
import { axes, dot, line, short, write } from "../kit/plot.js"

const HIGH = 150 // pixels of the chart

/** @param {import("../kit/stage.js").Stage} stage */
export default function fireRuler(stage) {
  /** @type {{ head: import("../math/biases.js").FireHead, distance: number, longest: number, trained: number }} */
  const { head, distance, longest, trained } = stage.data

  stage.predict(
    `The heads have learned “${distance} back” on ${trained} tokens. Which token does a query at place ${longest} look at?`,
    ["a nearer one", `the one ${distance} back`, "a farther one"],
    (given) => {
      nail.value = false
      place.value = longest
      return `${given === "a farther one" ? "Yes" : "No, a farther one"}: the one ${peak()} back. The ruler got longer, so ${distance} tokens became a smaller share of it, and the share that once meant ${distance} is further out.`
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
      ctx.fillStyle = look.ground
      ctx.fillRect(box.left, top, end - box.left, 40)
      const found = peak()
      const named = [distance, found, m()]
      let free = -Infinity
      for (let back = 0; back <= m(); back++) {
        const x = to.x(share(back))
        const marked = named.includes(back)
        ctx.fillStyle = look.soft
        ctx.fillRect(x - 0.5, top, 1, marked ? 12 : 7)
        dot(ctx, x, to.y(bias(back)), look.series[0], 1.6)
        const room = Math.min(...named.filter((d) => d > back).map((d) => to.x(share(d)) - x))
        if (!marked && (x < free || room < 24)) continue
        const color = back === distance ? look.letters[1] : back === found ? look.letters[0] : look.soft
        write(ctx, look, short(back), x, top + 24, {
          size: marked ? 14 : 11.5,
          weight: marked ? 700 : 400,
          align: "center",
          color,
        })
        free = x + 26
      }
      ;[found, distance].forEach((back, i) => {
        const [x, y] = [to.x(share(back)), to.y(bias(back))]
        if (back === distance) ctx.setLineDash([4, 3])
        ctx.strokeStyle = look.series[i]
        ctx.beginPath()
        ctx.moveTo(x, y)
        ctx.lineTo(x, top)
        ctx.stroke()
        dot(ctx, x, y, look.series[i], 5)
      })
      ctx.setLineDash([])
      write(ctx, look, `tokens back from m = ${m()}, to the first`, box.left, top + 56)
      write(ctx, look, `${distance} back`, Math.max(box.left + 44, to.x(share(distance)) - 6), 18, {
        color: look.letters[1],
        weight: 700,
        align: "right",
        halo: true,
      })
      write(ctx, look, found === distance ? "" : `looks ${found} back`, to.x(share(found)) + 8, 18, {
        color: look.letters[0],
        weight: 700,
        halo: true,
      })
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
