// The dot product of two position vectors is a sum of cosines, one for the phase difference of each pair; a shift
// rotates both vectors of a pair and leaves its cosine as it is.

import { axes, circle, dashed, dot, fill, line, stroke, write } from "../kit/plot.js"
import { kernel, sinusoidal } from "../math/waves.js"

const TURN = 2 * Math.PI

/** @param {import("../kit/stage.js").Stage} stage */
export default function clockWedges(stage) {
  /** @type {{ theta: number[], gap: number, last: number }} */
  const { gap, last } = stage.data
  const theta = Float64Array.from(stage.data.theta)
  const count = theta.length
  const show = (/** @type {number} */ v) => v.toFixed(1)
  const p = stage.film("position p", { min: 0, max: last, value: 0, step: 0.05, rate: 1.5, show })
  const offset = stage.slider("offset Δ", { min: 0, max: last, value: gap, step: 0.1, show })

  const row = (/** @type {number} */ at) => sinusoidal(1, 2 * count, theta, "interleaved", at)
  const products = () => {
    const [a, b] = [row(p.value), row(p.value + offset.value)]
    return Array.from(theta, (_frequency, i) => a[2 * i] * b[2 * i] + a[2 * i + 1] * b[2 * i + 1])
  }
  const all = Array.from({ length: last * 10 + 1 }, (_, n) => n / 10)
  const curve = all.map((gap) => kernel(gap, theta))

  const boxes = (/** @type {number} */ width) => {
    const top = width / count + 52
    const steps = { left: 34, top, width: Math.max(90, width * 0.24), height: 150 }
    const left = steps.left + steps.width + 12
    const chart = { left, top, width: width - left - 10, height: 150 }
    return { cell: width / count, steps, chart, height: top + 194 }
  }

  stage.canvas({
    label: () =>
      `${count} pairs with two vectors each, at offset ${offset.value.toFixed(1)}. The cosines of their phase differences: ${products().map(signed).join(", ")}; their sum: ${signed(kernel(offset.value, theta))}`,
    ratio: (width) => boxes(width).height,
    draw: (ctx, width, _height, look) => {
      const { cell, steps, chart } = boxes(width)
      const cosines = products()
      const [a, b] = [row(p.value), row(p.value + offset.value)]
      cosines.forEach((cosine, i) => {
        const [x, y, radius] = [(i + 0.5) * cell, cell / 2, cell * 0.43]
        const tip = (/** @type {Float64Array} */ r, size = radius) =>
          /** @type {[number, number]} */ ([x + size * r[2 * i], y - size * r[2 * i + 1]])
        const phase = (/** @type {number} */ at) => theta[i] * at - Math.PI / 2 // as canvases count
        circle(ctx, x, y, radius, look.rule)
        ctx.beginPath()
        ctx.moveTo(x, y)
        const difference = (theta[i] * offset.value) % TURN
        ctx.arc(x, y, radius * 0.5, phase(p.value), phase(p.value) + difference)
        ctx.fillStyle = look.series[3]
        ctx.globalAlpha = 0.25
        ctx.fill()
        ctx.globalAlpha = 1
        const foot = tip(a, radius * cosine)
        dashed(ctx, [3, 3], () => stroke(ctx, tip(b), foot, look.soft, 1.2))
        stroke(ctx, [x, y], tip(a), look.series[0], 2)
        stroke(ctx, [x, y], foot, cosine < 0 ? look.series[4] : look.series[2], 6)
        stroke(ctx, [x, y], tip(b), look.series[1], 2.4)
        dot(ctx, ...tip(a), look.series[0], 3.5)
        dot(ctx, ...tip(b), look.series[1], 3.5)
        const color = look.letters[cosine < 0 ? 4 : 2]
        write(ctx, look, signed(cosine), x, cell + 8, { align: "center", weight: 700, color })
      })
      const y = [-count, count]
      const ticks = { xticks: [], yticks: [-count, 0, count] }
      const side = axes(ctx, look, steps, { x: [0, count], y, ...ticks, xlabel: "pairs", title: "cosines added" })
      const quarters = { xticks: [0, last / 4, last / 2, (3 * last) / 4, last], yticks: [] }
      const to = axes(ctx, look, chart, { x: [0, last], y, ...quarters, xlabel: "Δ", title: "K(Δ)" })
      let sum = 0
      cosines.forEach((cosine, i) => {
        const [x, width, height] = [side.x(i + 0.15), side.x(0.7) - side.x(0), side.y(cosine) - side.y(0)]
        fill(ctx, look.series[cosine < 0 ? 4 : 2], x, side.y(sum), width, height)
        sum += cosine
        if (i < count - 1) stroke(ctx, [side.x(i + 0.15), side.y(sum)], [side.x(i + 1.85), side.y(sum)], look.soft, 0.8)
      })
      line(ctx, to, [0, last], [0, 0], look.rule, 1)
      line(ctx, to, all, curve, look.series[0], 1.8)
      dashed(ctx, [3, 3], () =>
        stroke(ctx, [side.x(count - 0.15), side.y(sum)], [to.x(offset.value), to.y(sum)], look.ink, 1),
      )
      dot(ctx, to.x(offset.value), to.y(sum), look.ink, 4.5)
    },
    point: ({ x, y, width, down }) => {
      const { chart } = boxes(width)
      if (down && y > chart.top - 16 && x > chart.left - 8) offset.value = ((x - chart.left) / chart.width) * last
    },
    arrows: { x: offset },
  })

  stage.say(() => {
    const terms = products().map(signed)
    const [first, second, gap] = [p.value, p.value + offset.value, offset.value].map((at) => at.toFixed(1))
    return `Positions ${first} and ${second}: the cosines of the phase differences, ${terms.slice(0, -1).join(", ")} and ${terms[count - 1]}, add up to K(${gap}) = ${signed(kernel(offset.value, theta))}, whatever the first position is.`
  })
}

/** @param {number} value */
const signed = (value) => value.toFixed(2).replace("-0.00", "0.00").replace("-", "−")
