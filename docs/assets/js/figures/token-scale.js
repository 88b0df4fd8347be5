// The same sums for two linear classifiers: in one projection the positions vanish, in none the tokens do.

import { axes, dot, line, percent, stroke, write } from "../kit/plot.js"

/** @import { Box, Ctx, Look } from "../kit/plot.js" */
/** @typedef {number[]} Point */
/** @typedef {{ scales: number[], shares: [number, number][], lengths: { token: number, position: number },
 *   known: [number, string][] }} Readings */
/** @typedef {{ tokens: Point[], positions: Point[] }} View */

/** @param {import("../kit/stage.js").Stage} stage */
export default function tokenScale(stage) {
  /** @type {Readings & { straight: View, rotated: View, positions: View}} */
  const { scales, shares, lengths, known, straight, rotated, positions } = stage.data
  const last = scales.length - 1
  const show = (/** @type {number} */ n) => scales[n].toPrecision(2)
  const scale = stage.slider("σ, the scale of tokens", { min: 0, max: last, value: 0, show })
  const rotation = stage.slider("rotate the view of the tokens", {
    min: 0,
    max: 1,
    value: 0,
    step: 0.01,
    show: (v) => `${Math.round(100 * v)}%`,
  })
  const sigma = () => scales[scale.value]

  const boxes = (/** @type {number} */ width) => {
    const wide = width >= 640
    const side = wide ? (width - 32) * 0.32 : (width - 14) / 2
    const chart = wide
      ? { left: 34, top: 26, width: width - 2 * side - 84, height: side - 12 }
      : { left: 34, top: side + 62, width: width - 46, height: 120 }
    const views = [1, 0].map((n) => ({ left: width - side - n * (side + 14), top: 26, width: side, height: side }))
    return { chart, views, height: wide ? side + 64 : side + 222 }
  }

  const token = () => mixed(straight, rotated, rotation.value)
  const zoom = () => ({ token: 7 * sigma() + 1.05 * (1 - rotation.value), position: 1.7 + 2.4 * sigma() })

  stage.canvas({
    label: () =>
      `At a scale of ${sigma().toPrecision(2)}: share of tokens named ${percent(shares[scale.value][0])}, of positions ` +
      `${percent(shares[scale.value][1])}. Beside it the sums in two planes: ${straight.tokens.length} tokens at all positions, ${positions.positions.length} positions with many tokens`,
    ratio: (width) => boxes(width).height,
    draw: (ctx, width, _height, look) => {
      const { chart, views } = boxes(width)
      const to = axes(ctx, look, chart, {
        x: [scales[0], scales[last]],
        y: [0, 1.04],
        xticks: known.map(([value]) => value),
        xformat: (value) => known.find(([v]) => v === value)?.[1] ?? "",
        yticks: [0, 0.5, 1],
        xlabel: "σ",
        title: "share named",
        logx: true,
      })
      for (const named of [0, 1]) {
        const curve = shares.map((pair) => pair[named])
        line(ctx, to, scales, curve, look.series[named], 2)
        dot(ctx, to.x(sigma()), to.y(curve[scale.value]), look.series[named], 5)
      }
      const end = to.x(scales[last]) - 4
      write(ctx, look, "token", end, to.y(0.92), { align: "right", color: look.letters[0], weight: 700 })
      write(ctx, look, "position", end, to.y(0.2), { align: "right", color: look.letters[1], weight: 700 })
      const [near, far] = views
      const title = { weight: 700, size: 12.5, base: /** @type {const} */ ("bottom") }
      write(ctx, look, `${straight.tokens.length} tokens, all positions`, near.left, near.top - 7, title)
      clouds(ctx, look, near, token(), "tokens", zoom().token)
      write(ctx, look, `${positions.positions.length} positions, many tokens`, far.left, far.top - 7, title)
      clouds(ctx, look, far, positions, "positions", zoom().position)
    },
    point: ({ x, y, width, down }) => {
      const { chart } = boxes(width)
      if (!down || x > chart.left + chart.width + 9 || y < chart.top) return
      scale.value = Math.round(((x - chart.left) / chart.width) * last) // the grid is even on this axis
    },
    arrows: { x: scale },
  })

  /** Every sum of a token and a position, marked by the one that is to be named.
   * @type {(ctx: Ctx, look: Look, box: Box, view: View, named: "tokens" | "positions", reach: number) => void} */
  const clouds = (ctx, look, box, view, named, reach) => {
    const [x, y, unit] = [box.left + box.width / 2, box.top + box.height / 2, box.width / 2 / reach]
    ctx.save()
    ctx.beginPath()
    ctx.rect(box.left, box.top, box.width, box.height)
    ctx.fillStyle = look.ground
    ctx.fill()
    ctx.clip()
    ctx.globalAlpha = 0.6
    view.tokens.forEach((e, j) =>
      view.positions.forEach((p, i) => {
        const which = named === "tokens" ? j : i
        const at = [0, 1].map((c) => sigma() * e[c] + p[c])
        mark(ctx, which, x + unit * at[0], y - unit * at[1], look.series[which + 2])
      }),
    )
    ctx.restore()
    scaleBar(ctx, look, box, unit)
  }

  stage.say(() => {
    const [token, position] = shares[scale.value]
    const size = sigma() * lengths.token
    return `σ = ${sigma().toPrecision(2)}: a token embedding is ${size.toPrecision(2)} long, a position vector ${lengths.position.toPrecision(3)}. Named: ${percent(token)} of the tokens, ${percent(position)} of the positions.`
  })
}

/** @param {View} a @param {View} b @param {number} share @returns {View} */
const mixed = (a, b, share) => {
  const blend = (/** @type {Point[]} */ from, /** @type {Point[]} */ to) =>
    from.map((point, n) => point.map((value, c) => value + share * (to[n][c] - value)))
  return { tokens: blend(a.tokens, b.tokens), positions: blend(a.positions, b.positions) }
}

/** A disc, a square or a triangle. @type {(ctx: Ctx, kind: number, x: number, y: number, color: string) => void} */
const mark = (ctx, kind, x, y, color) => {
  if (kind === 0) return dot(ctx, x, y, color, 2.6)
  ctx.fillStyle = color
  if (kind === 1) return ctx.fillRect(x - 2.3, y - 2.3, 4.6, 4.6)
  ctx.beginPath()
  ctx.moveTo(x, y - 3.2)
  ctx.lineTo(x + 3, y + 2.2)
  ctx.lineTo(x - 3, y + 2.2)
  ctx.fill()
}

/** How long is a round number in this picture? @type {(ctx: Ctx, look: Look, box: Box, unit: number) => void} */
const scaleBar = (ctx, look, box, unit) => {
  const length = 10 ** Math.floor(Math.log10((0.55 * box.width) / unit))
  const [x, y] = [box.left + 8, box.top + box.height - 9]
  stroke(ctx, [x, y], [x + length * unit, y], look.ink, 1.2)
  write(ctx, look, String(length), x, y - 10, { size: 11, halo: true })
}
