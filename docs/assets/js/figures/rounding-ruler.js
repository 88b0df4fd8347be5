// Positions in boxes that a type of few bits stores as one number, and what a trained head attends to then.

import { attend } from "../math/attention.js"
import { angles, rightShare, stored } from "../math/rounding.js"
import { rope } from "../math/rope.js"
import { heat } from "../kit/heat.js"
import { axes, dot, line, whole, write } from "../kit/plot.js"

/** @import { Ctx, Look } from "../kit/plot.js" */
/** @import { Kind } from "../math/rounding.js" */
/** @typedef {Kind & { first: number, measured: [number, number][] }} Type */

const NARROW = 520
const LAYOUT = "half" // of the layer
const CELL = 44

/** @param {import("../kit/stage.js").Stage} stage */
export default function roundingRuler(stage) {
  /** @type {{ kinds: Record<string, Type>, start: number, length: number, back: number, tokens: number,
   *   theta: number[], query: number[][], key: number[][], texts: number[][] }} */
  const { kinds, start, length, back, tokens, theta, query, key, texts } = stage.data
  const names = Object.keys(kinds)
  const type = stage.choice("angles in", names)
  const first = stage.slider("first position", { min: 0, max: 4 * kinds[names[0]].first, value: start, show: whole })
  const kind = () => kinds[type.value]
  const from = () => Math.round(first.value)
  const positions = (/** @type {number} */ p) => Array.from({ length }, (_, n) => stored(p + n, kind()))

  let typeBefore = names[0]
  stage.each(() => {
    if (typeBefore === type.value) return
    const at = moved(first.value, kinds[typeBefore].first, kind().first) // to the same boxes of the other type
    typeBefore = type.value
    first.max = 4 * kind().first
    first.value = at
  })

  /** The head's mean weights on a few texts, with its angles rounded or exact. @param {boolean} rounded */
  const weights = (rounded) => {
    const spots = Array.from({ length }, (_, n) => angles(from() + n, theta, kind()))
    const turn = (/** @type {number[]} */ x, /** @type {number} */ n) =>
      rounded ? rope(x, 1, spots[n], LAYOUT) : rope(x, n, theta, LAYOUT)
    const at = (/** @type {number[][]} */ rows) => rows.map((x) => spots.map((_, n) => turn(x, n)))
    const [queries, keys] = [at(query), at(key)]
    const mean = new Float64Array(length * length)
    for (const text of texts) {
      const scores = mean.map((_, i) => {
        const [m, n] = [Math.floor(i / length), i % length]
        return logit(queries[text[m]][m], keys[text[n]][n])
      })
      attend(scores, length, true).forEach((w, i) => (mean[i] += w / texts.length))
    }
    return mean
  }
  const onTarget = (/** @type {Float64Array} */ mean) => {
    let sum = 0
    for (let m = back; m < length; m++) sum += mean[m * length + m - back]
    return sum / (length - back)
  }
  const exact = onTarget(weights(false))
  let latest = { name: "", mean: new Float64Array(0) }
  const now = () => {
    const name = `${type.value} ${from()}`
    if (latest.name !== name) latest = { name, mean: weights(true) }
    return latest.mean
  }
  /** @type {Record<string, number[][]>} */
  const cliffs = {}
  const cliff = () =>
    (cliffs[type.value] ??= Array.from({ length: 129 }, (_, j) => {
      const p = Math.floor((j * kind().first) / 32)
      return [p, rightShare(positions(p), back, tokens)]
    }))

  let grip = { x: 0, first: 0 }
  stage.canvas({
    label: () => `Positions from ${whole(from())} in boxes of those that ${type.value} stores as one number`,
    ratio: () => 84,
    draw: (ctx, width, _height, look) => drawRuler(ctx, look, width, from(), kind()),
    point: ({ x, down, start }) => {
      if (start) grip = { x, first: from() }
      if (down) first.value = grip.first - Math.round((x - grip.x) / CELL)
    },
    arrows: { x: first },
  }).element.style.cursor = "grab"

  stage.canvas({
    label: () => `Attention of the head, and the share of right answers: ${share().toFixed(2)} predicted`,
    ratio: (width) => (width < NARROW ? width * 0.8 + 236 : 280),
    draw: (ctx, width, height, look) => {
      const narrow = width < NARROW
      const side = narrow ? width * 0.8 - 50 : 220
      const map = { left: 74, top: 26, width: side, height: side }
      heat(ctx, map, now(), length, { map: "viridis", low: 0, high: 1 })
      const position = (/** @type {number} */ v) => whole(from() + v)
      axes(ctx, look, map, {
        x: [0, length],
        y: [length, 0],
        xticks: [0, length],
        yticks: [0, length / 2, length],
        xformat: position,
        yformat: position,
        xlabel: "key",
        title: "Attention weights",
      })
      const left = narrow ? 44 : side + 144
      const room = width - left - (narrow ? 22 : 34)
      const box = { left, top: narrow ? side + 106 : 26, width: room, height: narrow ? 130 : side }
      const { first: unit, measured } = kind()
      const to = axes(ctx, look, box, {
        x: [0, 4 * unit],
        y: [0, 1.08],
        xticks: [0, unit, 2 * unit, 4 * unit],
        yticks: [0, 0.5, 1],
        xformat: narrow && unit > 1e6 ? (v) => (v ? `${Math.round(v / 2 ** 20)} · 2²⁰` : "0") : whole,
        xlabel: "first position",
        title: "Share of right answers",
      })
      line(ctx, to, ...pair(cliff()), look.series[1])
      for (const [p, hit] of measured) dot(ctx, to.x(p), to.y(hit), look.series[0], 3.5)
      const [x, y] = [to.x(from()), to.y(share())]
      line(ctx, to, [from(), from()], [0, 1.08], look.series[4], 1.2)
      dot(ctx, x, y, look.series[4], 5)
      const right = x < box.left + box.width * 0.75
      const style = { color: look.letters[4], size: 14, weight: 700, halo: true }
      const level = y + (share() < 0.9 ? -10 : 13) // clear of the title
      write(ctx, look, share().toFixed(2), x + (right ? 9 : -9), level, { ...style, align: right ? "left" : "right" })
      const legend = { size: 11.5, align: /** @type {CanvasTextAlign} */ ("right"), halo: true }
      const edge = box.left + box.width
      write(ctx, look, "line: predicted", edge, box.top + 16, { ...legend, color: look.letters[1] })
      write(ctx, look, "dots: measured", edge, box.top + 32, { ...legend, color: look.letters[0] })
    },
  })
  const share = () => rightShare(positions(from()), back, tokens)
  stage.say(() => {
    const count = new Set(positions(from())).size
    return `From ${whole(from())} on, ${type.value} has ${count} numbers for ${length} positions. Predicted: ${share().toFixed(2)} of the answers right. The head gives ${onTarget(now()).toFixed(2)} of its weight to the token at offset ${back}; with exact angles it is ${exact.toFixed(2)}.`
  })
}

/** The position with the same boxes in another type. @param {number} at @param {number} first @param {number} other */
const moved = (at, first, other) => {
  if (at < first) return Math.floor((at / first) * other)
  const times = 2 ** Math.floor(Math.log2(at / first))
  return times * other + Math.min(at - times * first, times * other - 1)
}

/** @param {ArrayLike<number>} a @param {ArrayLike<number>} b of one head */
const logit = (a, b) => {
  let sum = 0
  for (let c = 0; c < a.length; c++) sum += a[c] * b[c]
  return sum / Math.sqrt(a.length)
}

/** @param {number[][]} points @returns {[number[], number[]]} */
const pair = (points) => [points.map(([x]) => x), points.map(([, y]) => y)]

/** @type {(ctx: Ctx, look: Look, width: number, first: number, kind: Kind) => void} */
const drawRuler = (ctx, look, width, first, kind) => {
  const x = (/** @type {number} */ p) => (p - first + 0.5) * CELL
  const name = (/** @type {number} */ p) => (p < 100_000 ? whole(p) : `…${String(p).slice(-3)}`)
  const end = first + Math.ceil(width / CELL)
  for (let p = Math.max(0, first - 8); p <= end;) {
    const number = stored(p, kind)
    let next = p + 1
    while (stored(next, kind) === number) next++
    const hue = (number / (stored(next, kind) - number)) % 2
    if (next > first) {
      ctx.beginPath()
      ctx.roundRect(x(p - 0.42), 4, (next - p - 0.16) * CELL, 30, 7)
      ctx.globalAlpha = 0.25
      ctx.fillStyle = look.series[hue]
      ctx.fill()
      ctx.globalAlpha = 1
      for (let q = p; q < next; q++) write(ctx, look, name(q), x(q), 19, { size: 11.5, align: "center" })
      const style = { color: look.letters[hue], weight: 700 }
      write(ctx, look, name(number), x((p + next - 1) / 2), 50, { ...style, align: "center" })
    }
    p = next
  }
  write(ctx, look, "one box, one number: the one below it", 2, 74, { size: 11.5, color: look.soft })
}
