// A dot product is the sum of the pairs' cosines. Their phases decide whether it falls with the distance.

import { randomState } from "../math/random.js"
import { rope, scorer } from "../math/rope.js"
import { axes, circle, dot, fixed, hand, line, stroke, write } from "../kit/plot.js"

/** @import { Box, Ctx, Look } from "../kit/plot.js" */

const NARROW = 520
const LAYOUT = "interleaved"
const [CURVE, NOW] = [3, 4] // colors

/** @param {import("../kit/stage.js").Stage} stage */
export default function ropeHands(stage) {
  /** @type {{ theta: number[], scattered: number[], built: number, last: number, bet: number, tries: number,
   *   seed: number, colors: string[] }} */
  const { theta, scattered, built, last, bet, tries, seed, colors } = stage.data
  const up = theta.flatMap(() => [1, 0]) // phase 0 in each pair
  const xs = Array.from({ length: 4 * last + 1 }, (_, j) => j / 4)
  /** The dot product of a query whose pairs have been given these phases. @param {ArrayLike<number>} query */
  const start = (query) => {
    const product = scorer(query, up, theta, LAYOUT)
    return { query, product, ys: xs.map(product) }
  }
  const { uniform } = randomState(seed)
  const rotated = (/** @type {ArrayLike<number>} */ angles) => start(rope(up, 1, angles, LAYOUT))
  const drawn = [rotated(scattered)]
  const draw = () => drawn.push(rotated(theta.map(() => 2 * Math.PI * uniform())))

  stage.predict(
    `Can the phases be set so that, of all keys, the one exactly ${bet} back has the highest logit?`,
    ["no, nearer keys have higher ones", "yes, for any distance"],
    (answer) => {
      peak.value = distance.value = bet
      const verdict = answer.startsWith("yes") ? "Yes." : "Look at the built phases."
      return `${verdict} Each phase is set back by what its pair rotates in ${bet} steps, so all are 0 there.`
    },
  )
  const distance = stage.film("distance Δ", { min: 0, max: last, value: 0, rate: 5 })
  stage.bar = null // the next controls stand in a row of their own
  stage.button("Draw again", draw)
  stage.button(`Draw ${tries} times`, () => {
    drawn.length = 0
    for (let i = 0; i < tries; i++) draw()
  })
  const peak = stage.slider("built: in phase at", { min: 0, max: last, value: built })

  const now = () => Math.round(distance.value * 4) / 4
  const lower = () => drawn.filter(({ product }) => product(now()) < product(0)).length
  const panels = () => [
    { title: "Equal", note: "they drift apart", tries: [start(up)] },
    { title: "Random", note: now() ? `lower than at 0: ${lower()} of ${drawn.length}` : "no trend", tries: drawn },
    { title: "Built", note: `in phase at ${peak.value}`, tries: [start(rope(up, -peak.value, theta, LAYOUT))] },
  ]

  stage.canvas({
    label: () =>
      `Three circles, each with the vectors of ${theta.length} pairs, and the sums of their cosines at distance ${now()}: ${panels()
        .map(({ title, tries }) => `${title.toLowerCase()} ${tenth(tries[tries.length - 1].product(now()))}`)
        .join(", ")}`,
    ratio: (width) => (width < NARROW ? 3 * 168 + 12 : 304),
    draw: (ctx, width, height, look) =>
      panels().forEach(({ title, note, tries }, i) => {
        const { x, y, radius, box } = place(width, i)
        const { query, product } = tries[tries.length - 1]
        write(ctx, look, title, x, y - radius - 28, { size: 13, weight: 700, align: "center" })
        write(ctx, look, note, Math.max(x, 64), y - radius - 13, { size: 11.5, align: "center", color: look.soft })
        drawPairs(ctx, look, x, y, radius, rope(query, now(), theta, LAYOUT), colors)
        const level = y - (radius * product(now())) / theta.length
        stroke(ctx, [x - radius, level], [x + radius, level], look.series[NOW], 1.2)
        const mean = !i && width >= NARROW ? "mean" : ""
        write(ctx, look, mean, x + radius + 5, level, { size: 11.5, color: look.letters[NOW] })
        const to = axes(ctx, look, box, {
          x: [0, last],
          y: [-theta.length, theta.length],
          yticks: [-theta.length, 0, theta.length],
          xticks: title === "Built" ? apart(peak.value, last) : [0, last / 2, last],
          xlabel: i < 2 && width < NARROW ? "" : "distance Δ",
        })
        stroke(ctx, [box.left, to.y(0)], [box.left + box.width, to.y(0)], look.rule, 1.2)
        ctx.globalAlpha = Math.max(0.22, 1 / tries.length)
        for (const { ys } of tries.slice(0, -1)) line(ctx, to, xs, ys, look.series[5], 0.8)
        ctx.globalAlpha = 1
        line(ctx, to, xs, tries[tries.length - 1].ys, look.series[CURVE])
        stroke(ctx, [to.x(now()), box.top], [to.x(now()), box.top + box.height], look.series[NOW], 1.2)
        dot(ctx, to.x(now()), to.y(product(now())), look.series[NOW], 4.5)
        const right = now() > last * 0.7
        write(ctx, look, tenth(product(now())), to.x(now()) + (right ? -8 : 8), to.y(product(now())) - 9, {
          color: look.letters[NOW],
          weight: 700,
          align: right ? "right" : "left",
          halo: true,
        })
      }),
    point: ({ x, y, width, down }) => {
      if (!down) return
      const { box } = [0, 1, 2].map((i) => place(width, i)).find(({ box }) => inside(box, x, y)) ?? {}
      if (box) distance.value = Math.round(((x - box.left) / box.width) * last)
    },
    arrows: { x: distance },
  })
  stage.say(() => {
    const [equal, random, aligned] = panels().map(({ tries }) => tenth(tries[tries.length - 1].product(now())))
    const trend = now() ? ` Random ones that are lower here than at distance 0: ${lower()} of ${drawn.length}.` : ""
    return `The key ${now()} back: with equal phases q · k is ${equal} of ${theta.length}, with random ones ${random}, with those built for ${peak.value} it is ${aligned}.${trend}`
  })
}

const tenth = (/** @type {number} */ value) => fixed(value, 1)

/** Where the built phases meet, and the ends of the axis that leave it room.
 * @type {(peak: number, last: number) => number[]} */
const apart = (peak, last) => [peak, ...[0, last].filter((end) => Math.abs(end - peak) > last / 8)]

/** @param {Box} box @param {number} x @param {number} y */
const inside = (box, x, y) =>
  x > box.left - 9 && x < box.left + box.width + 9 && y > box.top - 9 && y < box.top + box.height + 20

/** A circle over its curve; beside it on a phone. @param {number} width @param {number} i */
const place = (width, i) => {
  if (width < NARROW) {
    const radius = Math.min(56, width / 6)
    const box = { left: 2 * radius + 46, top: i * 168 + 26, width: width - 2 * radius - 58, height: 112 }
    return { x: radius + 6, y: i * 168 + 44 + radius, radius, box }
  }
  const column = width / 3
  const box = { left: i * column + 34, top: 178, width: column - 50, height: 88 }
  return { x: box.left + box.width / 2, y: 100, radius: Math.min(60, column * 0.38), box }
}

/** Up is phase 0; the highest frequency lies on top.
 * @type {(ctx: Ctx, look: Look, x: number, y: number, radius: number, tips: ArrayLike<number>, colors: string[]) =>
 *   void} */
const drawPairs = (ctx, look, x, y, radius, tips, colors) => {
  circle(ctx, x, y, radius, look.rule)
  for (let i = colors.length - 1; i >= 0; i--) {
    hand(ctx, x, y, radius * 0.92, Math.PI / 2 - Math.atan2(tips[2 * i + 1], tips[2 * i]), colors[i], 3)
  }
}
