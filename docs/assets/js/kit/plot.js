// Charts, dots and hands, drawn as the book's Matplotlib figures look.

/** @typedef {import("./paper.js").Look} Look */
/** @typedef {CanvasRenderingContext2D} Ctx */
/** @typedef {{ left: number, top: number, width: number, height: number }} Box */
/** @typedef {{ x: (value: number) => number, y: (value: number) => number, atX: (pixel: number) => number,
 *   atY: (pixel: number) => number, box: Box }} Scales */
/** @typedef {{ color?: string, size?: number, weight?: number, align?: CanvasTextAlign, base?: CanvasTextBaseline,
 *   halo?: boolean }} Lettering */
/**
 * @typedef {object} AxesOptions
 * @property {number[]} x from the left edge to the right
 * @property {number[]} y from the bottom to the top; the other way round for rows of a matrix
 * @property {string} [xlabel]
 * @property {string} [ylabel]
 * @property {string} [title]
 * @property {boolean} [logx]
 * @property {number[]} [xticks] none for []
 * @property {number[]} [yticks]
 * @property {(value: number) => string} [xformat]
 * @property {(value: number) => string} [yformat]
 */

/** Round places for about `count` ticks. @param {number} low @param {number} high @param {number} count */
export const ticks = (low, high, count) => {
  const [a, b] = [Math.min(low, high), Math.max(low, high)]
  const rough = (b - a) / Math.max(1, count) || 1
  const power = 10 ** Math.floor(Math.log10(rough))
  const step = power * ([1, 2, 5, 10].find((m) => m * power >= rough * 0.999) ?? 10)
  const places = []
  for (let n = Math.ceil(a / step - 1e-9); n * step <= b + step * 1e-9; n++) places.push(n * step + 0) // no -0
  return places
}

/** @param {number} low @param {number} high */
const decades = (low, high) => {
  const first = Math.ceil(Math.log10(low) - 1e-9)
  const last = Math.floor(Math.log10(high) + 1e-9)
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => 10 ** (first + i))
}

/** A number as a reader expects it: few digits, a true minus. @param {number} value @param {number} [digits] */
export const short = (value, digits = 3) => {
  const whole = Math.abs(value) >= 10_000 || Number.isInteger(value)
  const near = whole ? Math.round(value) + 0 : Number(value.toPrecision(digits)) // + 0: never -0
  return (Math.abs(near) < 1000 ? String(near) : near.toLocaleString("en")).replace("-", "−")
}

/** A number to so many digits, never -0. @param {number} value @param {number} digits */
export const fixed = (value, digits) =>
  (Math.round(value * 10 ** digits) / 10 ** digits + 0).toFixed(digits).replace("-", "−")

/** A share of 1 as a percentage. @param {number} share @param {number} [digits] */
export const percent = (share, digits = 0) => `${fixed(100 * share, digits)}%`

/** A whole number with its thousands apart. @param {number} value */
export const whole = (value) => Math.round(value).toLocaleString("en")

/** Draw the frame of a chart and return its scales.
 * @type {(ctx: Ctx, look: Look, box: Box, options: AxesOptions) => Scales} */
export const axes = (ctx, look, box, options) => {
  const {
    x: [x0, x1],
    y: [y0, y1],
    logx = false,
    xformat = short,
    yformat = short,
    xlabel,
    ylabel,
    title,
  } = options
  const { left, top, width, height } = box
  const foot = top + height
  const bend = logx ? Math.log : (/** @type {number} */ v) => v
  const x = (/** @type {number} */ v) => left + ((bend(v) - bend(x0)) / (bend(x1) - bend(x0))) * width
  const y = (/** @type {number} */ v) => foot - ((v - y0) / (y1 - y0)) * height
  const atX = (/** @type {number} */ pixel) => {
    const place = bend(x0) + ((pixel - left) / width) * (bend(x1) - bend(x0))
    return logx ? Math.exp(place) : place
  }
  const atY = (/** @type {number} */ pixel) => y0 + ((foot - pixel) / height) * (y1 - y0)
  const xs = options.xticks ?? (logx ? decades(x0, x1) : ticks(x0, x1, width / 70))
  const ys = options.yticks ?? ticks(y0, y1, height / 40)
  ctx.save()
  ctx.strokeStyle = look.soft
  ctx.lineWidth = 0.8
  ctx.beginPath()
  ctx.moveTo(left, top)
  ctx.lineTo(left, foot)
  ctx.lineTo(left + width, foot)
  for (const v of xs) (ctx.moveTo(x(v), foot), ctx.lineTo(x(v), foot + 3))
  for (const v of ys) (ctx.moveTo(left, y(v)), ctx.lineTo(left - 3, y(v)))
  ctx.stroke()
  ctx.restore()
  for (const v of xs) write(ctx, look, xformat(v), x(v), foot + 5, { size: 11, align: "center", base: "top" })
  for (const v of ys) write(ctx, look, yformat(v), left - 6, y(v), { size: 11, align: "right" })
  if (xlabel) write(ctx, look, xlabel, left + width / 2, foot + (xs.length ? 20 : 6), { align: "center", base: "top" })
  if (title) write(ctx, look, title, left, top - 7, { size: 12.5, weight: 700, base: "bottom" })
  if (ylabel) {
    ctx.font = look.font(12)
    const room = Math.max(0, ...ys.map((v) => ctx.measureText(yformat(v)).width))
    upright(ctx, look, ylabel, left - room - 10, top + height / 2, { base: "bottom" })
  }
  return { x, y, atX, atY, box }
}

/** Draw a line through points; a value that is no number breaks it.
 * @type {(ctx: Ctx, to: Scales, xs: ArrayLike<number>, ys: ArrayLike<number>, color: string, width?: number) => void}
 */
export const line = (ctx, to, xs, ys, color, width = 1.6) => {
  ctx.save()
  ctx.beginPath()
  ctx.rect(to.box.left - 1, to.box.top - 3, to.box.width + 4, to.box.height + 6)
  ctx.clip()
  ctx.beginPath()
  let pen = false
  for (let i = 0; i < xs.length; i++) {
    if (Number.isFinite(ys[i])) pen ? ctx.lineTo(to.x(xs[i]), to.y(ys[i])) : ctx.moveTo(to.x(xs[i]), to.y(ys[i]))
    pen = Number.isFinite(ys[i])
  }
  ctx.strokeStyle = color
  ctx.lineWidth = width
  ctx.stroke()
  ctx.restore()
}

/** @type {(ctx: Ctx, x: number, y: number, color: string, radius?: number) => void} */
export const dot = (ctx, x, y, color, radius = 4) => {
  ctx.beginPath()
  ctx.arc(x, y, radius, 0, 2 * Math.PI)
  ctx.fillStyle = color
  ctx.fill()
}

/** Write a word, with a halo of paper so that it stays legible on lines.
 * @type {(ctx: Ctx, look: Look, text: string, x: number, y: number, style?: Lettering) => void} */
export const write = (ctx, look, text, x, y, style = {}) => {
  const { color = look.ink, size = 12, weight = 400, align = "left", base = "middle", halo = false } = style
  ctx.save()
  ctx.font = look.font(size, weight)
  ctx.textAlign = align
  ctx.textBaseline = base
  if (halo) {
    ctx.strokeStyle = look.paper
    ctx.lineWidth = 3.5
    ctx.strokeText(text, x, y)
  }
  ctx.fillStyle = color
  ctx.fillText(text, x, y)
  ctx.restore()
}

/** @type {(ctx: Ctx, from: [number, number], to: [number, number], color: string, width: number) => void} */
export const stroke = (ctx, from, to, color, width) => {
  ctx.beginPath()
  ctx.moveTo(...from)
  ctx.lineTo(...to)
  ctx.strokeStyle = color
  ctx.lineWidth = width
  ctx.stroke()
}

/** @type {(ctx: Ctx, x: number, y: number, length: number, angle: number, color: string, width?: number) => void} */
export const hand = (ctx, x, y, length, angle, color, width = 2.4) => {
  stroke(ctx, [x, y], [x + length * Math.cos(angle), y - length * Math.sin(angle)], color, width)
  dot(ctx, x, y, color, Math.max(1.5, width * 0.8))
}

/** A circle's rim. @type {(ctx: Ctx, x: number, y: number, radius: number, color: string, width?: number) => void} */
export const circle = (ctx, x, y, radius, color, width = 1.2) => {
  ctx.beginPath()
  ctx.arc(x, y, radius, 0, 2 * Math.PI)
  ctx.strokeStyle = color
  ctx.lineWidth = width
  ctx.stroke()
}

/** @type {(ctx: Ctx, color: string, x: number, y: number, width: number, height: number) => void} */
export const fill = (ctx, color, x, y, width, height) => {
  ctx.fillStyle = color
  ctx.fillRect(x, y, width, height)
}

/** @type {(ctx: Ctx, color: string, thick: number, x: number, y: number, width: number, height: number) => void} */
export const frame = (ctx, color, thick, x, y, width, height) => {
  ctx.strokeStyle = color
  ctx.lineWidth = thick
  ctx.strokeRect(x, y, width, height)
}

/** @type {(ctx: Ctx, alpha: number, draw: () => void) => void} */
export const faint = (ctx, alpha, draw) => {
  const before = ctx.globalAlpha
  ctx.globalAlpha *= alpha
  draw()
  ctx.globalAlpha = before
}

/** @type {(ctx: Ctx, dash: number[], draw: () => void) => void} */
export const dashed = (ctx, dash, draw) => {
  ctx.setLineDash(dash)
  draw()
  ctx.setLineDash([])
}

/** @type {(ctx: Ctx, look: Look, text: string, x: number, y: number, style?: Lettering) => void} */
export const upright = (ctx, look, text, x, y, style) => {
  ctx.save()
  ctx.translate(x, y)
  ctx.rotate(-Math.PI / 2)
  write(ctx, look, text, 0, 0, { align: "center", ...style })
  ctx.restore()
}
