// Paint a mask, stack a few layers, and see what one output can tell of the order of the other tokens.

import { hops, mask, view } from "../math/masks.js"
import { circle, dashed, dot, faint, fill, frame, stroke, upright, write } from "../kit/plot.js"
import { handle } from "../kit/controls.js"

/** @import { Box, Ctx, Look } from "../kit/plot.js" */

/** The masks: kind, name and size.
 * @typedef {{ length: number, depth: number, masks: [string, string, number][], ask: string }} Data */

const PAINTED = "painted"

/** @param {import("../kit/stage.js").Stage} stage */
export default function maskPainter(stage) {
  /** @type {Data} */
  const { length, depth: deepest, masks, ask } = stage.data
  const last = length - 1
  const cursor = { x: 0, y: 1 } // the cell that the button flips
  let [visible, drawn] = [/** @type {boolean[]} */ ([]), ""]
  let ink = true // what the pointer paints
  let knowledge = view([], 0, 0, 0) // what the output can tell
  /** @type {number[]} */
  let far = [] // how many layers each token is away from the output

  const [, asked, size] = masks.find(([kind]) => kind === ask) ?? masks[0]
  const layers = hops(mask(ask, length, size), length, last)[0]
  stage.predict(
    `A ${asked}: after how many layers does output ${last} depend on token 0?`,
    [1, layers, last].map(layered),
    (answer) => {
      ;[kind.value, depth.value, output.value] = [ask, layers, last]
      const verdict = parseInt(answer) === layers ? "Yes." : "No."
      return `${verdict} Each layer reaches ${size - 1} positions further back: ${layers} layers for an offset of ${last}. Take layers away and see.`
    },
  )
  const kind = stage.choice(
    "mask",
    [...masks.map(([key, name]) => /** @type {[string, string]} */ ([key, name])), [PAINTED, "painted by you"]],
    masks[1][0],
  )
  const depth = stage.slider("layers", { min: 1, max: deepest, value: 1 })
  const output = stage.slider("output at token", { min: 0, max: last, value: last })
  const flip = stage.button("", () => paint(!at(cursor.y, cursor.x)))

  const at = (/** @type {number} */ m, /** @type {number} */ n) => visible[m * length + n]
  /** @param {boolean} on */
  const paint = (on) => {
    if (cursor.x === cursor.y || at(cursor.y, cursor.x) === on) return // a token always attends to itself
    visible[cursor.y * length + cursor.x] = on
    drawn = PAINTED
    kind.value = PAINTED
  }
  /** @param {"x" | "y"} axis */
  const along = (axis) =>
    handle(
      () => cursor[axis],
      (to) => {
        cursor[axis] = Math.min(last, Math.max(0, to))
        stage.changed()
      },
    )
  stage.each(() => {
    const chosen = masks.find(([key]) => key === kind.value)
    if (chosen && drawn !== kind.value) visible = mask(chosen[0], length, chosen[2])
    drawn = kind.value
    far = hops(visible, length, output.value)
    knowledge = view(visible, length, output.value, depth.value)
    const { x, y } = cursor
    flip.disabled = x === y
    flip.textContent =
      x === y
        ? `Token ${x} attends to itself`
        : at(y, x)
          ? `Hide key ${x} from query ${y}`
          : `Show key ${x} to query ${y}`
  })
  /** The tokens that cannot be told from the one at a position, itself among them. @param {number} position */
  const bag = (position) =>
    position === output.value
      ? [position]
      : knowledge.others.filter((n) => knowledge.bags[n] === knowledge.bags[position])

  /** @param {number} width */
  const layout = (width) => {
    const wide = width > 600
    const cell = wide ? 28 : Math.min(30, (width - 40) / length)
    const grid = { left: 40, top: 30, width: cell * length, height: cell * length }
    const left = wide ? grid.left + grid.width + 70 : 50
    const net = { left, top: wide ? 40 : grid.top + grid.height + 70, width: width - left, height: 190 }
    return { grid, cell, net }
  }
  const paper = stage.canvas({
    label: () => `A mask of ${length} by ${length} tokens and the paths through ${layered(depth.value)}. ${reading()}`,
    ratio: (width) => {
      const { grid, net } = layout(width)
      return Math.max(grid.top + grid.height + 24, net.top + net.height + 66)
    },
    draw: (ctx, width, _height, look) => {
      const { grid, cell, net } = layout(width)
      drawMask(ctx, look, grid, cell)
      drawNet(ctx, look, net)
    },
    point: ({ x, y, width, down, start }) => {
      const { grid, cell } = layout(width)
      const [n, m] = [Math.floor((x - grid.left) / cell), Math.floor((y - grid.top) / cell)]
      if (!down || Math.min(m, n) < 0 || Math.max(m, n) >= length) return
      if (start) ink = !at(m, n)
      Object.assign(cursor, { x: n, y: m })
      paint(ink)
    },
    arrows: { x: along("x"), y: along("y") },
  })

  /** @type {(ctx: Ctx, look: Look, grid: Box, cell: number) => void} */
  const drawMask = (ctx, look, grid, cell) => {
    visible.forEach((open, i) => {
      const [m, n] = [Math.floor(i / length), i % length]
      const counts = far[m] < depth.value // the output depends on this row
      ctx.globalAlpha = open && !counts ? 0.35 : 1
      const color = open ? look.series[counts ? 0 : 5] : look.ground
      fill(ctx, color, grid.left + n * cell + 1, grid.top + m * cell + 1, cell - 2, cell - 2)
    })
    ctx.globalAlpha = 1
    frame(ctx, look.spark, 2, grid.left + cursor.x * cell + 1, grid.top + cursor.y * cell + 1, cell - 2, cell - 2)
    const soft = { color: look.soft, align: /** @type {const} */ ("center") }
    for (let i = 0; i < length; i++) {
      write(ctx, look, String(i), grid.left + (i + 0.5) * cell, grid.top - 8, soft)
      const own = i === output.value
      const style = { color: own ? look.ink : look.soft, weight: own ? 700 : 400 }
      write(ctx, look, String(i), grid.left - 8, grid.top + (i + 0.5) * cell, { ...style, align: "right" })
    }
    const views = { color: look.letters[0], size: 12 }
    write(ctx, look, `blue: rows that output ${output.value} depends on`, grid.left, grid.top + grid.height + 14, views)
    write(ctx, look, "key n", grid.left + grid.width / 2, grid.top - 23, soft)
    upright(ctx, look, "query m", grid.left - 28, grid.top + grid.height / 2, soft)
  }

  /** @type {(ctx: Ctx, look: Look, net: Box) => void} */
  const drawNet = (ctx, look, net) => {
    const x = (/** @type {number} */ n) => net.left + ((n + 0.5) / length) * net.width
    const y = (/** @type {number} */ layer) => net.top + net.height * (1 - layer / depth.value)
    const used = (/** @type {number} */ n, /** @type {number} */ layer) => far[n] <= depth.value - layer
    for (let layer = 1; layer <= depth.value; layer++)
      visible.forEach((open, i) => {
        const [m, n] = [Math.floor(i / length), i % length]
        if (!open || !used(m, layer)) return
        const color = m === n ? look.soft : look.series[5]
        faint(ctx, 0.55, () => stroke(ctx, [x(n), y(layer - 1)], [x(m), y(layer)], color, 1))
      })
    for (let layer = 0; layer <= depth.value; layer++) {
      const name = layer ? `layer ${layer}` : "tokens"
      write(ctx, look, name, net.left - 4, y(layer), { color: look.soft, align: "right" })
      for (let n = 0; n < length; n++) {
        if (layer > 0) dot(ctx, x(n), y(layer), used(n, layer) ? look.soft : look.rule, used(n, layer) ? 4 : 2)
        else drawToken(ctx, look, x(n), y(0), n)
      }
    }
    dot(ctx, x(output.value), y(depth.value), look.spark, 8)
    const align = output.value > last / 2 ? "right" : "left"
    write(ctx, look, `output ${output.value}`, x(output.value), net.top - 20, { align, weight: 600 })
    const several = knowledge.others.filter((n) => knowledge.bags[n] === n && bag(n).length > 1).map(bag)
    several.forEach((alike, i) => {
      const floor = net.top + net.height + 24 + 9 * Math.min(i, 3)
      ctx.strokeStyle = look.series[1]
      ctx.lineWidth = 2
      ctx.beginPath()
      for (const n of alike) (ctx.moveTo(x(n), floor - 6), ctx.lineTo(x(n), floor))
      ctx.lineTo(x(alike[0]), floor)
      ctx.stroke()
    })
    const label = several.length ? "bracket: tokens that could swap unnoticed" : "all positions can be told"
    const style = { color: several.length ? look.letters[1] : look.letters[0], size: 12 }
    if (knowledge.others.length) write(ctx, look, label, net.left, net.top + net.height + 56, style)
  }

  /** @type {(ctx: Ctx, look: Look, x: number, y: number, n: number) => void} */
  const drawToken = (ctx, look, x, y, n) => {
    const alone = bag(n).length === 1
    const reached = bag(n).length > 0
    dot(ctx, x, y, look.paper, 12)
    const rim = reached ? look.series[alone ? 0 : 1] : look.soft
    dashed(ctx, reached ? [] : [2, 4], () => circle(ctx, x, y, 12, rim, reached ? 2.4 : 1))
    const text = reached && !alone ? "?" : String(n)
    const tint = reached ? look.letters[alone ? 0 : 1] : look.soft
    write(ctx, look, text, x, y + 0.5, { align: "center", weight: reached ? 700 : 400, size: 13, color: tint })
  }

  const reading = () => {
    const { others, orders, distinct } = knowledge
    const away = length - 1 - others.length
    const who = `After ${layered(depth.value)}, output ${output.value} depends on ${others.length} of the ${last} other tokens.`
    if (others.length < 2) return `${who} There is no order to tell.`
    const [all, some] = [orders, distinct].map((count) => count.toLocaleString("en"))
    const part =
      distinct === orders ? `It tells all their ${all} orders apart` : `It tells apart ${some} of their ${all} orders`
    const so = distinct === 1 ? `All their ${all} orders give the same output: they are a bag of words` : part
    return `${who} ${so}.${away ? ` It does not depend on the other ${away}.` : ""}`
  }
  stage.say(reading)
}

/** @param {number} count */
const layered = (count) => (count === 1 ? "1 layer" : `${count} layers`)
