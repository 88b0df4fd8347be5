// The product of two rows is a sum of shadows, one for each clock; time turns the hands and leaves every shadow as
// it is.

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
  const p = stage.film("time p", { min: 0, max: last, value: 0, step: 0.05, rate: 1.5, show })
  const distance = stage.slider("ticks between, Δ", { min: 0, max: last, value: gap, step: 0.1, show })

  const row = (/** @type {number} */ at) => sinusoidal(1, 2 * count, theta, "interleaved", at)
  const products = () => {
    const [a, b] = [row(p.value), row(p.value + distance.value)]
    return Array.from(theta, (_speed, i) => a[2 * i] * b[2 * i] + a[2 * i + 1] * b[2 * i + 1])
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
      `${count} clocks with two hands each, ${distance.value.toFixed(1)} ticks apart. The shadows of one hand on the other: ${products().map(signed).join(", ")}; their sum: ${signed(kernel(distance.value, theta))}`,
    ratio: (width) => boxes(width).height,
    draw: (ctx, width, _height, look) => {
      const { cell, steps, chart } = boxes(width)
      const shadows = products()
      const [a, b] = [row(p.value), row(p.value + distance.value)]
      shadows.forEach((shadow, i) => {
        const [x, y, radius] = [(i + 0.5) * cell, cell / 2, cell * 0.43]
        const tip = (/** @type {Float64Array} */ r, size = radius) =>
          /** @type {[number, number]} */ ([x + size * r[2 * i], y - size * r[2 * i + 1]])
        const turned = (/** @type {number} */ at) => theta[i] * at - Math.PI / 2
        circle(ctx, x, y, radius, look.rule)
        ctx.beginPath()
        ctx.moveTo(x, y)
        const wedge = (theta[i] * distance.value) % TURN
        ctx.arc(x, y, radius * 0.5, turned(p.value), turned(p.value) + wedge)
        ctx.fillStyle = look.series[3]
        ctx.globalAlpha = 0.25
        ctx.fill()
        ctx.globalAlpha = 1
        const foot = tip(a, radius * shadow)
        dashed(ctx, [3, 3], () => stroke(ctx, tip(b), foot, look.soft, 1.2))
        stroke(ctx, [x, y], tip(a), look.series[0], 2)
        stroke(ctx, [x, y], foot, shadow < 0 ? look.series[4] : look.series[2], 6)
        stroke(ctx, [x, y], tip(b), look.series[1], 2.4)
        dot(ctx, ...tip(a), look.series[0], 3.5)
        dot(ctx, ...tip(b), look.series[1], 3.5)
        const color = look.letters[shadow < 0 ? 4 : 2]
        write(ctx, look, signed(shadow), x, cell + 8, { align: "center", weight: 700, color })
      })
      const y = [-count, count]
      const ticks = { xticks: [], yticks: [-count, 0, count] }
      const side = axes(ctx, look, steps, { x: [0, count], y, ...ticks, xlabel: "clocks", title: "laid on end" })
      const quarters = { xticks: [0, last / 4, last / 2, (3 * last) / 4, last], yticks: [] }
      const to = axes(ctx, look, chart, { x: [0, last], y, ...quarters, xlabel: "Δ", title: "K(Δ)" })
      let sum = 0
      shadows.forEach((shadow, i) => {
        const [x, width, height] = [side.x(i + 0.15), side.x(0.7) - side.x(0), side.y(shadow) - side.y(0)]
        fill(ctx, look.series[shadow < 0 ? 4 : 2], x, side.y(sum), width, height)
        sum += shadow
        if (i < count - 1) stroke(ctx, [side.x(i + 0.15), side.y(sum)], [side.x(i + 1.85), side.y(sum)], look.soft, 0.8)
      })
      line(ctx, to, [0, last], [0, 0], look.rule, 1)
      line(ctx, to, all, curve, look.series[0], 1.8)
      dashed(ctx, [3, 3], () =>
        stroke(ctx, [side.x(count - 0.15), side.y(sum)], [to.x(distance.value), to.y(sum)], look.ink, 1),
      )
      dot(ctx, to.x(distance.value), to.y(sum), look.ink, 4.5)
    },
    point: ({ x, y, width, down }) => {
      const { chart } = boxes(width)
      if (down && y > chart.top - 16 && x > chart.left - 8) distance.value = ((x - chart.left) / chart.width) * last
    },
    arrows: { x: distance },
  })

  stage.say(() => {
    const terms = products().map(signed)
    const [first, second, gap] = [p.value, p.value + distance.value, distance.value].map((at) => at.toFixed(1))
    return `Hands at ${first} and ${second}: the shadows ${terms.slice(0, -1).join(", ")} and ${terms[count - 1]} add up to K(${gap}) = ${signed(kernel(distance.value, theta))}, at whatever time.`
  })
}

/** @param {number} value */
const signed = (value) => value.toFixed(2).replace("-0.00", "0.00").replace("-", "−")
