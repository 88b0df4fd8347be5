// Each pair has a direction: only steps along it rotate the pair. What shape does the kernel of all of them have?

import { heat } from "../kit/heat.js"
import { axes, circle, dashed, dot, line, short, stroke, write } from "../kit/plot.js"
import { needles, onRing, planeMap, spread } from "../math/needles.js"

/** @import { Ctx, Look } from "../kit/plot.js" */

const RADIANS = Math.PI / 180
const CELLS = 101 // of the map, in each direction
const POINTS = 180 // on the ring
const SWEEP = 181 // angles at which the spread is known
const FLOOR = -2.9 // powers of ten: what is rounder lies on the floor
const third = (/** @type {number} */ v) => v.toFixed(3)

/** The directions as needles of a compass, each turned on from the one before.
 * @type {(ctx: Ctx, look: Look, x: number, y: number, radius: number, theta: import("../math/needles.js").Needles) =>
 *   void} */
const compass = (ctx, look, x, y, radius, theta) => {
  ctx.beginPath()
  ctx.arc(x, y, radius, 0, 2 * Math.PI)
  ctx.strokeStyle = look.rule
  ctx.stroke()
  const count = theta.y.length
  for (let i = count - 1; i >= 0; i--) {
    const way = Math.atan2(theta.y[i], theta.x[i])
    const length = radius * (1 - (0.75 * i) / count)
    const [right, down] = [length * Math.cos(way), length * Math.sin(way)]
    const color = i ? look.series[0] : look.spark
    stroke(ctx, [x - right, y - down], [x + right, y + down], color, i ? 1.4 : 2.6)
    dot(ctx, x + right, y + down, color, i ? 2.2 : 4)
  }
}

/** @param {import("../kit/stage.js").Stage} stage */
export default function kernelDirections(stage) {
  /** @type {{ base: number, pairs: number, far: number, radius: number, farther: number,
   *   angles: Record<string, number>, few: string, many: string, start: number }} */
  const { base, pairs, far, radius, farther, angles, few, many, start } = stage.data
  stage.predict(
    `Which is rounder on the ring of radius ${radius}?`,
    [`${short(angles[few])}°: four directions`, `${short(angles[many], 4)}°: no two alike`],
    (answer) => {
      ;[angle.value, ring.value, count.value] = [angles[few], radius, pairs]
      const [near, away] = [radius, farther].map((r) => [few, many].map((name) => uneven(angles[name], r)))
      const right = answer.includes("four") === near[0] < near[1]
      const spreads = `The spreads are ${third(near[0])} for four directions and ${third(near[1])} for all`
      return `${right ? "Yes" : "No"}. ${spreads}. Widen the ring to ${farther}: ${third(away[0])} and ${third(away[1])}.`
    },
  )
  const show = (/** @type {number} */ v) => `${v.toFixed(1)}°`
  const angle = stage.film("angle", { min: 0, max: 180, value: start, step: 0.5, rate: 10, show })
  for (const [name, degrees] of Object.entries(angles)) {
    stage.button(name, () => (angle.pause(), (angle.value = degrees)))
  }
  const ring = stage.slider("ring", { min: 1, max: far, value: radius, step: 0.5 })
  const count = stage.slider("pairs", { min: 1, max: 2 * pairs, value: pairs })
  const theta = (degrees = angle.value) => needles(count.value, base, degrees * RADIANS)
  const uneven = (/** @type {number} */ degrees, r = ring.value) => spread(onRing(theta(degrees), r, POINTS))

  const steps = Float64Array.from({ length: CELLS }, (_, i) => far * ((2 * i) / (CELLS - 1) - 1))
  const sweep = Array.from({ length: SWEEP }, (_, i) => (180 * i) / (SWEEP - 1))
  let [known, curve] = ["", [0]]
  stage.each(() => {
    if (known === `${ring.value} ${count.value}`) return
    known = `${ring.value} ${count.value}`
    curve = sweep.map((degrees) => Math.log10(uneven(degrees)))
  })

  const map = { left: 0, top: 0, width: 0, height: 0 }
  const reading = () => {
    const values = onRing(theta(), ring.value, POINTS)
    const [low, high] = [Math.min(...values), Math.max(...values)].map((v) => v.toFixed(2).replace("-", "−"))
    const all =
      count.value > 1 ? `${count.value} directions, each ${show(angle.value)} on from the one before` : "One direction"
    return `${all}. On the ring of radius ${ring.value}, K/K(0) runs from ${low} to ${high}: spread ${third(spread(values))}.`
  }
  stage.canvas({
    label: reading,
    ratio: (width) => (width > 560 ? 0.29 * width + 156 : 0.5 * width + 326),
    draw: (ctx, width, height, look) => {
      const wide = width > 560
      const side = (wide ? 0.27 : 0.48) * width
      Object.assign(map, { left: wide ? 0.28 * width : width - side - 2, top: 24, width: side, height: side })
      const title = { size: 12.5, weight: 700 }
      write(ctx, look, "directions", 2, 10, title)
      write(ctx, look, "K/K(0) over the plane", map.left, 10, title)
      compass(ctx, look, map.left / 2 - 4, 24 + side / 2, Math.min(map.left / 2 - 14, side / 2), theta())
      heat(ctx, map, planeMap(theta(), steps), CELLS, { low: -1, high: 1 })
      const middle = [map.left + side / 2, map.top + side / 2]
      const radius = (side / 2) * (ring.value / far)
      // on the map's own colors, the same in the dark
      dashed(ctx, [2, 4], () => circle(ctx, middle[0], middle[1], radius, "#111111", 1.8))

      const left = wide ? map.left + side + 50 : 40
      const round = { left, top: wide ? 24 : side + 62, width: width - left - 12, height: wide ? side - 40 : 70 }
      const values = onRing(theta(), ring.value, POINTS)
      const low = Math.min(-0.5, ...values)
      const around = axes(ctx, look, round, {
        x: [0, 360],
        y: [low, 1],
        xticks: [0, 90, 180, 270, 360],
        xformat: (v) => `${v}°`,
        yticks: [-1, 0, 1].filter((v) => v > low - 0.01),
        title: "K/K(0) on the ring",
      })
      const ways = Array.from({ length: POINTS + 1 }, (_, n) => (360 * n) / POINTS)
      line(ctx, around, ways, [...values, values[0]], look.series[2], 2)

      const strip = { left: 44, top: wide ? height - 114 : height - 128, width: width - 60, height: wide ? 72 : 86 }
      const to = axes(ctx, look, strip, {
        x: [0, 180],
        y: [FLOOR, 0],
        xticks: [0, 45, 90, 135, 180],
        xformat: (v) => `${v}°`,
        yticks: [-2, -1, 0],
        yformat: (v) => short(10 ** v),
        xlabel: "angle from direction to direction",
        title: "spread on this ring",
      })
      line(ctx, to, sweep, curve, look.series[4], 1.8)
      dot(ctx, to.x(angle.value), to.y(Math.max(FLOOR, Math.log10(uneven(angle.value)))), look.spark, 5)
    },
    point: ({ x, y, down }) => {
      const [right, below] = [x - map.left - map.width / 2, y - map.top - map.height / 2]
      const away = (far * Math.hypot(right, below)) / (map.width / 2)
      if (down && away <= far * Math.SQRT2) ring.value = Math.round(2 * away) / 2
    },
    arrows: { x: angle, y: ring },
  })
  stage.say(reading)
}
