// Ring attention: the map of which rank computes which pairs, and the timeline of which rank waits.

import { faint, fill, frame, percent, short, stroke, upright, write } from "../kit/plot.js"
import { fetched, owners, pairs, slowest, stepOf, totals } from "../math/ring.js"

/** @import { Ctx, Look } from "../kit/plot.js" */
/** @typedef {ReturnType<typeof judge>} View */
/** @typedef {{ left: number, top: number, side: number }} Square */

const ORDERS = { contiguous: "contiguous", zigzag: "zig-zag", striped: "striped" }
const WIDE = 580 // pixels from which the timeline stands beside the map
const SIDE = 300

/** @param {string} order @param {number} tokens @param {number} ranks @param {number} window */
const judge = (order, tokens, ranks, window) => {
  const owner = owners(order, tokens, ranks)
  const counts = pairs(owner, ranks, window)
  const steps = slowest(counts, ranks)
  const done = steps.reduce((a, b) => a + b)
  const work = totals(counts, ranks)
  const busy = work.reduce((a, b) => a + b) / (ranks * done)
  const keys = Math.max(...fetched(owner, ranks, window))
  return { order, tokens, ranks, window, owner, counts, steps, done, work, waits: 1 - busy, keys }
}

/** @param {import("../kit/stage.js").Stage} stage */
export default function ringClock(stage) {
  /** @type {{ tokens: number, ranks: number[], usual: number, window: number }} */
  const { tokens, ranks, usual, window } = stage.data
  const tried = new Set(["contiguous"]) // the bars of the others would tell too early

  stage.predict(
    `Let each query attend to the latest ${window} keys only. Then both splits give the ranks the same work. With which are ${usual} ranks done first?`,
    ["contiguous", "zig-zag", "both at once"],
    (answer) => {
      ;[many.value, width.value, order.value, step.value] = [String(usual), window, "zigzag", usual]
      tried.add("contiguous")
      const [first, second] = ["contiguous", "zigzag"].map((order) => judge(order, tokens, usual, window).done)
      return `${answer === "contiguous" ? "Yes" : "No, contiguous"}: after ${first} pairs in place of ${second}. A chunk needs the keys of the chunk before it. Contiguous, one neighbor has these, and they arrive in step 1. Zig-zag, late chunks need those of the other neighbor, which arrive last: one more step in which all wait for the slowest.`
    },
  )
  const order = stage.choice("split", Object.entries(ORDERS))
  const many = stage.choice("ranks", ranks.map(String), String(usual))
  const orAll = (/** @type {number} */ v) => (v < tokens ? String(v) : "all")
  const width = stage.slider("sliding window", { min: 1, max: tokens, value: tokens, show: orAll })
  const orAllSteps = (/** @type {number} */ v) => (v < Number(many.value) ? String(Math.floor(v)) : "all")
  const step = stage.film("step", { min: 0, max: usual, value: usual, rate: 0.8, show: orAllSteps })

  /** @type {View} */ let view
  /** @type {View[]} */ let rivals
  stage.each(() => {
    const count = Number(many.value)
    if (step.max !== count) {
      const all = step.value >= step.max
      step.max = count
      if (all) step.value = count
    }
    tried.add(order.value)
    rivals = Object.keys(ORDERS).map((order) => judge(order, tokens, count, width.value))
    view = rivals[Object.keys(ORDERS).indexOf(order.value)]
  })
  const now = () => (step.value < view.ranks ? Math.floor(step.value) : -1)

  stage.canvas({
    label: () =>
      `A square of queries and keys in ${view.ranks} colors, and a timeline of ${view.ranks} ranks: done after ${view.done} pairs, ${percent(view.waits)} of the time is waiting`,
    ratio: (wide) => (wide > WIDE ? SIDE + 62 : Math.min(wide - 56, SIDE) + 88 + timelineHigh(view.ranks) + 112),
    draw: (ctx, wide, _height, look) => {
      const side = Math.min(wide > WIDE ? wide * 0.48 : wide - 56, SIDE)
      const map = { left: 44, top: 8, side }
      square(ctx, look, map, view, now())
      const [left, top] = wide > WIDE ? [side + 92, 24] : [44, side + 82]
      const room = wide - left - 12
      timeline(ctx, look, left, top, room / Math.max(...rivals.map(({ done }) => done)), view, now())
      const [edge, below] = [wide > WIDE ? left - 14 : 8, top + timelineHigh(view.ranks) + 26]
      bars(ctx, look, edge, below, wide - 12, rivals, order.value, tried)
    },
    arrows: { x: step, y: width },
  })
  stage.say(() => `${moment(view, now())}${summary(view)}`)
}

/** @param {number} ranks */
const rowHigh = (ranks) => (ranks > 4 ? 15 : 24)
/** @param {number} ranks */
const timelineHigh = (ranks) => ranks * rowHigh(ranks)

/** @param {Look} look */
const colors = (look) => [...look.series, look.blue, look.spark]

/** Each pair in the color of the rank that computes it; those of other steps pale.
 * @type {(ctx: Ctx, look: Look, square: Square, view: View, now: number) => void} */
const square = (ctx, look, { left, top, side }, view, now) => {
  const { tokens, ranks, owner, window } = view
  const { a: scale } = ctx.getTransform() // pixels of the screen, so that no seams show
  const [across, down] = [left, top].map(
    (from) => (/** @type {number} */ p) => Math.round((from + (p / tokens) * side) * scale) / scale,
  )
  fill(ctx, look.ground, left, top, side, side)
  const tones = colors(look)
  owner.forEach((rank, m) => {
    ctx.fillStyle = tones[rank]
    for (let n = Math.max(0, m - window + 1); n <= m; n++) {
      const at = stepOf(rank, owner[n], ranks)
      ctx.globalAlpha = now < 0 || at === now ? 0.85 : 0.2
      ctx.fillRect(across(n), down(m), across(n + 1) - across(n), down(m + 1) - down(m))
    }
  })
  ctx.globalAlpha = 1
  if (view.order !== "striped") labels(ctx, look, { left, top, side }, view, now)
  else write(ctx, look, "0, 1, …", left - 6, top + 8, { align: "right", size: 11 })
  write(ctx, look, "rank of the keys", left + side / 2, top + side + 30, { align: "center" })
  upright(ctx, look, "rank of the queries", left - 34, top + side / 2)
}

/** The ranks along both sides, and the steps in the tiles of chunks.
 * @type {(ctx: Ctx, look: Look, square: Square, view: View, now: number) => void} */
const labels = (ctx, look, { left, top, side }, view, now) => {
  const { tokens, ranks, owner, window } = view
  const chunks = view.order === "zigzag" ? 2 * ranks : ranks
  const length = tokens / chunks
  const holder = (/** @type {number} */ c) => owner[c * length]
  const cell = side / chunks
  const middle = (/** @type {number} */ c) => (c + 0.5) * cell
  for (let c = 1; c < chunks; c++) {
    stroke(ctx, [left, top + c * cell], [left + side, top + c * cell], look.paper, 0.8)
    stroke(ctx, [left + c * cell, top], [left + c * cell, top + side], look.paper, 0.8)
  }
  for (let i = 0; i < chunks; i++) {
    write(ctx, look, String(holder(i)), left - 7, top + middle(i), { align: "right", size: 11 })
    write(ctx, look, String(holder(i)), left + middle(i), top + side + 12, { align: "center", size: 11 })
    for (let j = 0; j <= i; j++) {
      const step = stepOf(holder(i), holder(j), ranks)
      if (window < (i - j || 0.4) * length + 0.2 * length || (now >= 0 && now !== step)) continue // no room for a word
      const [x, y] = i === j ? [middle(j) - cell * 0.2, middle(i) + cell * 0.2] : [middle(j), middle(i)]
      const size = cell < 20 ? 9.5 : 11.5
      write(ctx, look, String(step), left + x, top + y, { color: "#fff", size, weight: 600, align: "center" })
    }
  }
}

/** What each rank does in each step; an empty box is waiting.
 * @param {Ctx} ctx @param {Look} look @param {number} left @param {number} top @param {number} scale pixels for a pair
 * @param {View} view @param {number} now */
const timeline = (ctx, look, left, top, scale, { ranks, counts, steps, done }, now) => {
  const high = rowHigh(ranks)
  const tones = colors(look)
  let begin = left
  steps.forEach((longest, step) => {
    const wide = longest * scale
    const weight = step === now ? 700 : 400
    if (wide > 9) write(ctx, look, String(step), begin + wide / 2, top - 10, { align: "center", size: 11, weight })
    for (let rank = 0; rank < ranks; rank++) {
      const y = top + rank * high + 2
      faint(ctx, now < 0 || step === now ? 0.85 : 0.25, () =>
        fill(ctx, tones[rank], begin, y, counts[rank * ranks + step] * scale, high - 4),
      )
      frame(ctx, look.soft, 0.7, begin, y, wide, high - 4)
    }
    begin += wide
  })
  for (let rank = 0; rank < ranks; rank++)
    write(ctx, look, String(rank), left - 7, top + (rank + 0.5) * high, { align: "right", size: 11 })
  const label = `time: done after ${short(done)}`
  ctx.font = look.font(12)
  const end = Math.max(begin, left + ctx.measureText(label).width)
  write(ctx, look, label, end, top + timelineHigh(ranks) + 10, { align: "right" })
}

/** When the splits are done, and what they fetch.
 * @type {(ctx: Ctx, look: Look, left: number, top: number, right: number, rivals: View[], chosen: string,
 *   tried: Set<string>) => void} */
const bars = (ctx, look, left, top, right, rivals, chosen, tried) => {
  const most = Math.max(...rivals.map(({ done }) => done))
  const from = left + 76
  const room = right - 52 - from - 40
  write(ctx, look, "done after, in pairs", from, top + 8, { size: 11.5, color: look.soft })
  write(ctx, look, "keys fetched", right, top + 8, { size: 11.5, align: "right", color: look.soft })
  rivals.forEach(({ order, done, keys }, i) => {
    const y = top + 28 + 22 * i
    const weight = order === chosen ? 700 : 400
    write(ctx, look, ORDERS[/** @type {keyof typeof ORDERS} */ (order)], from - 8, y, { align: "right", weight })
    if (!tried.has(order)) return write(ctx, look, "?", from + 2, y, { color: look.soft })
    faint(ctx, 0.55, () => fill(ctx, order === chosen ? look.ink : look.soft, from, y - 6, (done / most) * room, 12))
    write(ctx, look, short(done), from + (done / most) * room + 6, y, { weight })
    write(ctx, look, String(keys), right, y, { align: "right", weight })
  })
}

/** What happens in one step. @param {View} view @param {number} step */
const moment = ({ ranks, counts, steps }, step) => {
  if (step < 0) return ""
  const idle = Array.from({ length: ranks }, (_, rank) => rank).filter((rank) => !counts[rank * ranks + step])
  const whose = step ? `Step ${step}, the keys of the rank ${step} before` : "Step 0, each its own keys"
  if (!steps[step]) return `${whose}: no query attends to any of them. `
  const waiting = idle.length
    ? `; ${idle.length > 1 ? "ranks" : "rank"} ${listed(idle)} use${idle.length > 1 ? "" : "s"} none`
    : ""
  return `${whose}: the slowest has ${steps[step]} pairs${waiting}. `
}

/** @param {number[]} numbers */
const listed = (numbers) =>
  [numbers.slice(0, -1).join(", "), ...numbers.slice(-1)].filter((part) => part !== "").join(" and ")

/** @param {View} view */
const summary = ({ order, ranks, work, done, waits, keys }) => {
  const [least, most] = [Math.min(...work), Math.max(...work)]
  const share = least === most ? `each rank has ${least} pairs` : `a rank has ${least} to ${most} pairs`
  return `Split ${ORDERS[/** @type {keyof typeof ORDERS} */ (order)]} on ${ranks} ranks, ${share}. All are done after ${done}, and ${waits < 0.005 ? "nobody waits" : `${percent(waits)} of the ranks' time is waiting`}. A rank needs up to ${keys} keys of other ranks.`
}
