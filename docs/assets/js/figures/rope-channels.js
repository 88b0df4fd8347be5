// Two ways to rotate a part of the pairs: which of them complete a rotation within a context, and what is left of a
// match far away.

import { meanMatch, partial } from "../math/partial.js"
import { proportional } from "../math/scaling.js"
import { turns } from "../math/stretch.js"
import { kernel } from "../math/waves.js"
import { axes, dot, faint, fill, line, percent, short, write } from "../kit/plot.js"

/** @import { Box, Ctx, Look } from "../kit/plot.js" */
/** @typedef {{ name: string, theta: Float64Array, color: number }} Way */

const NARROW = 520
const FLOOR = -2 // powers of ten of a rotation: what is slower lies on the floor
const POINTS = 300

/** @param {import("../kit/stage.js").Stage} stage */
export default function ropeChannels(stage) {
  /** @type {{ dim: number, pairs: number, bases: [number, number], base: number, contexts: [number, number],
   *   context: number }} */
  const { dim, pairs, bases, base, contexts, context } = stage.data
  const far = 2 ** contexts[1]
  const rotating = stage.slider("rotated pairs", { min: 1, max: dim / 2, value: pairs })
  const b = stage.slider("base", { min: bases[0], max: bases[1], value: base, log: true, show: (v) => short(round(v)) })
  const exponent = { min: contexts[0], max: contexts[1], value: Math.log2(context) }
  const reach = stage.slider("context", { ...exponent, show: (v) => short(2 ** v) })
  const length = () => 2 ** reach.value

  /** @returns {Way[]} */
  const ways = () => {
    const share = (2 * rotating.value) / dim
    return [
      { name: "full RoPE", theta: partial(dim, 1, round(b.value)), color: 5 },
      { name: "partial RoPE", theta: partial(dim, share, round(b.value)), color: 0 },
      { name: "p-RoPE", theta: proportional(dim, share, round(b.value)).theta, color: 1 },
    ]
  }
  const summaries = () =>
    ways().map(({ name, theta }) => {
      const complete = turns(theta, length()).filter((n) => n >= 1).length
      return `${name}: ${complete} complete${complete === 1 ? "s" : ""} a rotation, ${percent(farHalf(theta, length()))} of a match is left`
    })

  stage.canvas({
    label: () =>
      `Rotations of each pair, and the match against the distance. Within ${short(length())}, ${summaries().join("; ")}`,
    ratio: (width) => (width < NARROW ? 500 : 272),
    draw: (ctx, width, _height, look) => {
      const [left, right] = boxes(width)
      drawTurns(ctx, look, left, ways(), length(), far)
      drawMatches(ctx, look, right, ways(), length(), far)
    },
    point: ({ x, y, width, down }) => {
      const chart = boxes(width)[1]
      const share = (x - chart.left) / chart.width
      if (down && share >= 0 && y > chart.top && y < chart.top + chart.height)
        reach.value = Math.round(share * Math.log2(far))
    },
    arrows: { x: reach, y: rotating },
  })
  stage.say(
    () =>
      `Rotated pairs: ${rotating.value} of ${dim / 2}. Within ${short(length())}: ${summaries().join("; ")}, on average over the far half.`,
  )
}

const round = (/** @type {number} */ value) => Number(value.toPrecision(2))
const mean = (/** @type {number} */ distance, /** @type {Float64Array} */ theta) =>
  kernel(distance, theta) / theta.length
/** What is left of a match in the far half of a context. @param {Float64Array} theta @param {number} context */
const farHalf = (theta, context) => meanMatch(theta, Math.floor(context / 2) + 1, context)

/** Side by side, or one below the other on a phone. @param {number} width @returns {Box[]} */
const boxes = (width) => {
  const narrow = width < NARROW
  const size = { width: narrow ? width - 78 : width / 2 - 84, height: 190 }
  const right = narrow ? { left: 54, top: 276 } : { left: width / 2 + 50, top: 28 }
  return [
    { left: 54, top: 28, ...size, height: narrow ? 166 : 190 },
    { ...right, ...size, height: narrow ? 170 : 190 },
  ]
}

/** @type {(ctx: Ctx, look: Look, box: Box, ways: Way[], context: number, far: number) => void} */
const drawTurns = (ctx, look, box, ways, context, far) => {
  const count = ways[0].theta.length
  const to = axes(ctx, look, box, {
    x: [-1, count],
    y: [FLOOR - 0.7, Math.log10(far)],
    xticks: [0, count / 4, count / 2, (3 * count) / 4, count - 1],
    yticks: [FLOOR - 0.4, 0, 2, 4],
    yformat: (v) => (v < 0 ? "0" : short(10 ** v)),
    xlabel: "pair i",
    title: `Rotations within ${short(context)}`,
  })
  fill(ctx, look.ground, box.left + 1, to.y(0), box.width, box.top + box.height - to.y(0) - 1)
  line(ctx, to, [-1, count], [0, 0], look.soft, 1)
  ways.forEach(({ theta, color }, w) =>
    turns(theta, context).forEach((n, i) => {
      const y = n ? to.y(Math.max(FLOOR, Math.log10(n))) : to.y(FLOOR - 0.4) + 4 * (w - 1.5) // those of frequency 0 lie at 0
      if (n || w) dot(ctx, to.x(i), y, look.series[color], w ? 2.4 : 1.7)
    }),
  )
  write(ctx, look, "one rotation", to.x(count), to.y(0) - 9, { size: 11.5, align: "right", halo: true })
}

/** @type {(ctx: Ctx, look: Look, box: Box, ways: Way[], context: number, far: number) => void} */
const drawMatches = (ctx, look, box, ways, context, far) => {
  const distances = Array.from({ length: POINTS + 1 }, (_, j) => Math.round(far ** (j / POINTS)))
  const to = axes(ctx, look, box, {
    x: [1, far],
    y: [-0.4, 1.05],
    logx: true,
    yticks: [0, 0.5, 1],
    xlabel: "distance Δ",
    title: "Match; bold: mean over the far half",
  })
  line(ctx, to, [1, far], [0, 0], look.rule, 1)
  ways.forEach(({ theta, color }) => {
    const matches = distances.map((distance) => mean(distance, theta))
    const means = distances.map((distance) => farHalf(theta, distance))
    faint(ctx, 0.35, () => line(ctx, to, distances, matches, look.series[color], 1))
    line(ctx, to, distances, means, look.series[color], 2)
  })
  line(ctx, to, [context, context], [-0.4, 1.05], look.series[4], 1.2)
  ways.forEach(({ name, theta, color }, w) => {
    dot(ctx, to.x(context), to.y(farHalf(theta, context)), look.series[color], 4.5)
    const style = { color: look.letters[color], weight: 600, halo: true }
    write(ctx, look, name, box.left + 10, to.y(0.26 - 0.15 * w), style)
  })
}
