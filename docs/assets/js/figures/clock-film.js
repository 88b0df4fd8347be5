// Pairs that rotate in real time, the waves of their cosines, and the channels of the table that they give.

import { sinusoidal } from "../math/waves.js"
import { color } from "../kit/heat.js"
import { axes, circle, dashed, dot, fill, fixed, hand, short, stroke, write } from "../kit/plot.js"

/** @import { Ctx, Look } from "../kit/plot.js" */
/** @typedef {{ pairs: number[], theta: number[], seconds: number, paces: number[], start: number }} Data */

const TURN = 2 * Math.PI
const FRAME = 1 / 60 // seconds that a picture of the film stands
const TRAIL = 0.12 // seconds that a vector leaves its trace on the circle
const DENSE = TURN / 4 // a pair that rotates further in a pixel draws a band
const SMOOTH = 0.4 // the step of a curve, in radians
const DARK = 0.62 // from this value on, a cell wants light letters

/** @param {import("../kit/stage.js").Stage} stage */
export default function clockFilm(stage) {
  /** @type {Data} */
  const { pairs, theta, seconds, paces, start } = stage.data
  const rows = theta.length
  const lowest = theta[rows - 1] // frequency
  let last = NaN // the time of the picture before
  let radius = 0

  const most = TURN / lowest / 3600 // hours
  stage.predict(
    `At ${paces[0]} position a second, how long does pair ${pairs[rows - 1]} take for one rotation?`,
    ["a minute", "an hour", "half a day"],
    (answer) => {
      pace.value = String(paces[paces.length - 1])
      const verdict = answer === "half a day" ? "Yes" : "Longer"
      return `${verdict}: ${short(Math.round(TURN / lowest))} positions, ${short(most)} hours. At ${short(Number(pace.value))} positions a second it takes ${Math.round(TURN / lowest / Number(pace.value))} seconds. Press Play.`
    },
  )
  const t = stage.film("time", {
    min: 0,
    max: seconds,
    value: start,
    step: 0.1,
    rate: 1,
    show: (value) => `t = ${value.toFixed(1)} s`,
  })
  const pace = stage.choice(
    "positions a second",
    paces.map((rate) => /** @type {[string, string]} */ ([String(rate), short(rate)])),
  )
  const position = () => t.value * Number(pace.value)

  /** @param {number} width */
  const layout = (width) => {
    const wide = width > 600
    const height = wide ? 68 : 82
    const head = wide ? 0 : 18 // pixels for a name above the row
    const cells = wide ? 78 : 0
    const center = cells + 64 + 34 // of the circles
    return { wide, height, head, cells, center, left: center + 38, right: width - 20, radius: wide ? 28 : 26 }
  }
  const paper = stage.canvas({
    label: () => `Pairs ${pairs.join(", ")} as rotating vectors, and their waves. ${reading()}`,
    ratio: (width) => rows * layout(width).height + 44,
    draw: (ctx, width, _height, look) => {
      const { wide, height, head, cells, center, left, right, ...rest } = layout(width)
      const end = seconds * Number(pace.value)
      const now = position()
      const moving = t.value > last && t.value - last < 0.5
      last = t.value
      radius = rest.radius
      const box = { left, top: rows * height, width: right - left, height: 0 }
      const thirds = [0, end / 3, (2 * end) / 3, end]
      const to = axes(ctx, look, box, { x: [0, end], y: [0, 1], xticks: thirds, yticks: [], xlabel: "position p" })
      const values = sinusoidal(1, 2 * rows, Float64Array.from(theta), "interleaved", now)
      theta.forEach((frequency, i) => {
        const middle = i * height + head + (height - head) / 2
        const tint = look.series[i]
        const swept = frequency * Number(pace.value)
        const blurred = moving && swept * FRAME > TURN / 2
        name(ctx, look, i, wide ? { x: 0, y: middle } : { x: 0, y: middle - radius - 9 }, wide)
        ;["sin", "cos"].forEach((which, c) =>
          cell(ctx, look, cells, middle + 25 * c - 24, which, blurred ? NaN : values[2 * i + c]),
        )
        face(ctx, look, center, middle, tint, [now * frequency, Math.min(now * frequency, swept * TRAIL)])
        const tip = middle - radius * values[2 * i + 1]
        if (!blurred) {
          hand(ctx, center, middle, radius, Math.PI / 2 - now * frequency, tint)
          dashed(ctx, [2, 4], () =>
            stroke(ctx, [center + radius * values[2 * i], tip], [to.x(now), tip], look.soft, 0.8),
          )
        }
        wave(ctx, middle, frequency, [left, right], end, to.x(now), tint)
        if (!blurred) (dot(ctx, to.x(now), tip, look.paper, 6.5), dot(ctx, to.x(now), tip, tint, 4.5))
      })
      stroke(ctx, [to.x(now), head], [to.x(now), rows * height], look.ink, 1)
    },
    point: ({ x, width, down, start }) => {
      const { left, right } = layout(width)
      if (start) t.pause()
      if (down) t.value = ((x - left) / (right - left)) * seconds
    },
    arrows: { x: t },
  })

  /** @type {(ctx: Ctx, look: Look, i: number, at: { x: number, y: number }, wide: boolean) => void} */
  const name = (ctx, look, i, { x, y }, wide) => {
    const wavelength = TURN / theta[i]
    const long = `λ = ${short(wavelength < 1000 ? Number(wavelength.toPrecision(3)) : Math.round(wavelength))}`
    write(ctx, look, `pair ${pairs[i]}`, x, wide ? y - 8 : y, { color: look.letters[i], weight: 700, size: 13 })
    write(ctx, look, long, wide ? x : x + 56, wide ? y + 9 : y, { color: look.soft })
  }
  /** A cell of the table; what changes too fast to be read has no value.
   * @type {(ctx: Ctx, look: Look, left: number, top: number, which: string, value: number) => void} */
  const cell = (ctx, look, left, top, which, value) => {
    const known = !Number.isNaN(value)
    fill(ctx, known ? color("RdBu_r", value, -1, 1) : look.ground, left, top, 64, 23)
    const text = `${which} ${known ? two(value) : "…"}`
    const tint = !known ? look.ink : Math.abs(value) > DARK ? "#f4f4f4" : "#222"
    write(ctx, look, text, left + 32, top + 12, { align: "center", color: tint })
  }
  /** A circle with the trace of the vector of its pair.
   * @type {(ctx: Ctx, look: Look, x: number, y: number, tint: string, swept: [number, number]) => void} */
  const face = (ctx, look, x, y, tint, [angle, trace]) => {
    const to = angle - TURN / 4 // twelve o'clock, as canvases count
    ctx.beginPath()
    ctx.moveTo(x, y)
    ctx.arc(x, y, radius, to - Math.min(trace, TURN), to)
    ctx.globalAlpha = 0.25
    ctx.fillStyle = tint
    ctx.fill()
    ctx.globalAlpha = 1
    circle(ctx, x, y, radius, look.rule)
    stroke(ctx, [x, y - radius], [x, y - radius + 4], look.soft, 1.2)
  }
  /** The height of the tip over all positions, drawn up to now and faint beyond; where it swings in a pixel, a band.
   * @type {(ctx: Ctx, middle: number, frequency: number, span: [number, number], end: number, now: number,
   *   tint: string) => void} */
  const wave = (ctx, middle, frequency, [left, right], end, now, tint) => {
    const angle = (end * frequency) / (right - left) // of a pixel
    const full = angle > DENSE
    const path = new Path2D()
    if (full) path.rect(left, middle - radius, right - left, 2 * radius)
    else {
      const step = Math.min(1, SMOOTH / angle)
      const values = sinusoidal(Math.ceil((right - left) / step) + 1, 2, Float64Array.of(angle * step))
      for (let n = 1; n < values.length; n += 2) path.lineTo(left + ((n - 1) / 2) * step, middle - radius * values[n])
    }
    ctx.fillStyle = ctx.strokeStyle = tint
    ctx.lineWidth = 1.8
    const parts = [{ from: left, to: now, alpha: 1 }, { from: now, to: right, alpha: 0.3 }] // prettier-ignore
    for (const { from, to, alpha } of parts) {
      ctx.save()
      ctx.beginPath()
      ctx.rect(from - 1, middle - radius - 2, to - from + 1, 2 * radius + 4)
      ctx.clip()
      ctx.globalAlpha = full ? alpha / 2 : alpha
      full ? ctx.fill(path) : ctx.stroke(path)
      ctx.restore()
    }
  }
  const reading = () => {
    const rotations = [theta[0], lowest].map((frequency) => (position() * frequency) / TURN)
    const [high, low] = rotations.map((count) => (count < 1 ? short(count, 2) : many(count)))
    return `t = ${t.value.toFixed(1)} s: position ${many(position())}. Pair ${pairs[0]} has completed ${high} rotations, pair ${pairs[rows - 1]} has completed ${low}.`
  }
  stage.say(reading)
}

/** Two digits, and no minus before zero. @param {number} value */
const two = (value) => fixed(value, 2)

/** @param {number} value */
const many = (value) => value.toLocaleString("en", { maximumFractionDigits: 1 })
