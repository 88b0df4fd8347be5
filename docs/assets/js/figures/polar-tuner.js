// The same four numbers in RoPE, where they are magnitude and phase of a pair, and in PoPE, where they are magnitudes.

import { contentAngle, crest, summit, wrap } from "../math/peaks.js"
import { scorer as popeScorer, softplus } from "../math/pope.js"
import { rope, scorer as ropeScorer } from "../math/rope.js"
import { axes, circle, dot, fixed, hand, line, write } from "../kit/plot.js"

/** @import { Ctx, Look } from "../kit/plot.js" */

const LAYOUT = "interleaved"
const ARC = 0.5 // of a circle's radius
const ROW = 110 // pixels of a curve

/** @param {import("../kit/stage.js").Stage} stage */
export default function polarTuner(stage) {
  /** @type {{ theta: [number, number], channels: [number, number], pair: number, q: [number, number],
   *   k: [number, number], limit: number, reach: number }} */
  const { theta, channels, pair, q: firstQ, k: firstK, limit, reach } = stage.data

  stage.predict(
    `At first query and key agree, and in both encodings q · k is highest at offset 0. Now channel ${channels[1]} of the query goes from ${tenth(firstQ[1])} to ${tenth(-firstQ[1])}. Which peak moves?`,
    ["RoPE’s", "PoPE’s", "both", "neither"],
    (answer) => {
      ;[...q, ...k].forEach((slider, i) => (slider.value = [...firstQ, ...firstK][i]))
      phases.forEach((slider) => (slider.value = 0))
      q[1].value = -firstQ[1]
      const [ofRope, ofPope] = peaks()
      return `${answer === "RoPE’s" ? "Yes" : "No, only RoPE’s"}: it went to Δ = ${tenth(ofRope)}, since the phase of the query’s pair has changed. In PoPE a magnitude became smaller, and the peak is where it was, at ${tenth(ofPope)}.`
    },
  )
  const content = (/** @type {string} */ name, /** @type {number[]} */ values) =>
    values.map((value, i) =>
      stage.slider(`${name} ${channels[i]}`, { min: -limit, max: limit, value, step: 0.05, show: fine }),
    )
  const q = content("query", firstQ)
  const k = content("key", firstK)
  const phases = channels.map((channel) =>
    stage.slider(`phase bias δ ${channel}`, { min: -2 * Math.PI, max: 0, value: 0, step: Math.PI / 36, show: fine }),
  )
  const offset = stage.slider("offset Δ", { min: -reach, max: reach, value: 3, show: (v) => fixed(v, 0) })
  const all = (/** @type {{ value: number }[]} */ controls) => controls.map((control) => control.value)
  const inRope = () => ropeScorer(all(q), all(k), [theta[0]], LAYOUT)
  const inPope = () => popeScorer(all(q), all(k), theta, all(phases))
  const singles = () => channels.map((_, i) => popeScorer([q[i].value], [k[i].value], [theta[i]], [phases[i].value]))
  /** Where each product is highest; RoPE's has no peak if a magnitude is 0. */
  const peaks = () => {
    const points = Math.hypot(...all(q)) * Math.hypot(...all(k)) > 0
    return [points ? crest(theta[0], contentAngle(all(q), all(k))) : NaN, summit(inPope(), -reach, reach)]
  }

  /** What each circle shows: the vector of the key, that of the query, and the angle between them. */
  const circles = () => {
    const own = contentAngle(all(q), all(k))
    const ofK = Math.atan2(k[1].value, k[0].value)
    const [lengthQ, lengthK] = [q, k].map((pair) => Math.hypot(...all(pair)))
    const asPair = { name: ["RoPE", `pair ${pair}`], part: "content", own, before: ofK + own, ofK, lengthQ, lengthK }
    const alone = channels.map((channel, i) => {
      const delta = wrap(phases[i].value)
      const [ofQ, ofKey] = [q[i], k[i]].map((control) => softplus(control.value))
      return {
        ...asPair,
        ...{ name: ["PoPE", `channel ${channel}`], part: "phase bias" },
        ...{ own: delta, before: 0, ofK: delta, lengthQ: ofQ, lengthK: ofKey },
      }
    })
    return [asPair, ...alone].map((one, i) => ({ ...one, turn: offset.value * theta[Math.max(0, i - 1)] }))
  }
  const radiusIn = (/** @type {number} */ width) => Math.min(width / 6 - 8, 72)
  const centerIn = (/** @type {number} */ width, i = 0) => [((i + 0.5) * width) / 3, radiusIn(width) + 48]
  const scale = Math.hypot(limit, limit)
  /** @type {typeof q | undefined} */
  let dragged
  stage.canvas({
    label: () =>
      circles()
        .map(
          (one) =>
            `${one.name.join(", ")}: query of magnitude ${fine(one.lengthQ)} and key of magnitude ${fine(one.lengthK)}, phase by ${one.part} ${fine(one.own)}, by position ${fine(one.turn)}`,
        )
        .join("; "),
    ratio: (width) => 2 * radiusIn(width) + 102,
    draw: (ctx, width, _height, look) => {
      const radius = radiusIn(width)
      circles().forEach(({ name, part, own, before, turn, ofK, lengthQ, lengthK }, i) => {
        const [x, y] = centerIn(width, i)
        const color = i ? 0 : 1
        name.forEach((text, row) =>
          write(ctx, look, text, x, 8 + 16 * row, { weight: row ? 400 : 700, align: "center" }),
        )
        circle(ctx, x, y, radius, look.rule)
        sector(ctx, x, y, radius * ARC, ofK, i ? ofK - own : before, look.series[color])
        sector(ctx, x, y, radius * ARC * 0.8, before, before + turn, look.soft)
        vector(ctx, look, x, y, (radius * lengthQ) / scale, before + turn, "q", 4)
        vector(ctx, look, x, y, (radius * lengthK) / scale, ofK, "k", 2)
        write(ctx, look, `${part} ${fine(own)}`, x, y + radius + 25, { align: "center", color: look.letters[color] })
        write(ctx, look, `position ${fine(turn)}`, x, y + radius + 42, { align: "center", color: look.soft })
      })
    },
    point: ({ x, y, width, down, start }) => {
      const [middle, level] = centerIn(width)
      const at = [x - middle, level - y].map((pixels) => (pixels / radiusIn(width)) * scale)
      const unrotated = rope(at, -offset.value, [theta[0]], LAYOUT)
      const away = (/** @type {{ value: number }[]} */ tip, /** @type {ArrayLike<number>} */ place) =>
        Math.hypot(tip[0].value - place[0], tip[1].value - place[1])
      const nearest = away(q, unrotated) < away(k, at) ? q : k
      if (start) dragged = x < 2 * middle ? nearest : undefined // PoPE's vectors follow the sliders
      if (!down || !dragged) return
      dragged.forEach((slider, i) => (slider.value = (dragged === q ? unrotated : at)[i]))
    },
  })
  const left = 22
  stage.canvas({
    label: () => `q · k against the offset: RoPE’s ${has(peaks()[0])}, PoPE’s ${has(peaks()[1])}`,
    ratio: () => 2 * ROW + 40,
    draw: (ctx, width, _height, look) => {
      const high = 2 * softplus(limit) ** 2
      const places = Array.from({ length: 201 }, (_, i) => reach * (i / 100 - 1))
      ;[inRope(), inPope()].forEach((score, i) => {
        const color = 1 - i
        const box = { left, top: 4 + i * ROW, width: width - left - 8, height: ROW - 10 }
        const to = axes(ctx, look, box, {
          x: [-reach, reach],
          y: [-high, 1.5 * high], // with room for words over the highest peak
          yticks: [0],
          ...(i ? { xlabel: "offset Δ" } : { xticks: [] }),
        })
        line(ctx, to, [-reach, reach], [0, 0], look.rule, 1)
        line(ctx, to, [offset.value, offset.value], [-high, 1.5 * high], look.soft, 1.2)
        if (i) singles().forEach((single) => line(ctx, to, places, places.map(single), look.series[color], 0.8))
        line(ctx, to, places, places.map(score), look.series[color], 2.6)
        dot(ctx, to.x(offset.value), to.y(score(offset.value)), look.series[color], 4.5)
        const peak = peaks()[i]
        const bold = { color: look.letters[color], size: 13, weight: 700, halo: true }
        write(ctx, look, i ? "PoPE" : "RoPE", left + 8, box.top + 12, bold)
        if (Number.isNaN(peak)) return
        const mark = { color: look.letters[color], align: /** @type {const} */ ("center"), halo: true }
        write(ctx, look, "▼", to.x(peak), to.y(score(peak)) - 8, { ...mark, size: 11 })
        const x = Math.max(left + 110, Math.min(width - 60, to.x(peak)))
        write(ctx, look, `highest at ${tenth(peak)}`, x, to.y(score(peak)) - 22, mark)
      })
    },
    point: ({ x, width, down }) => {
      if (down) offset.value = Math.round(((x - left) / (width - left - 8)) * 2 * reach - reach)
    },
    arrows: { x: offset },
  })
  stage.say(() => {
    const [ofRope, ofPope] = [inRope(), inPope()].map((score) => fine(score(offset.value)))
    const [peakRope, peakPope] = peaks()
    const cancelled = `where position cancels the phase difference of ${fine(contentAngle(all(q), all(k)))} that content makes`
    return `At offset ${fixed(offset.value, 0)} q · k is ${ofRope} in RoPE and ${ofPope} in PoPE. Within ±${reach} tokens RoPE’s ${has(peakRope)}${Number.isNaN(peakRope) ? ", for a vector of magnitude 0 has no phase" : `, ${cancelled}`}. PoPE’s ${has(peakPope)}.`
  })
}

/** @param {number} value */
const fine = (value) => fixed(value, 2)

/** @param {number} value */
const tenth = (value) => fixed(value, 1)

/** @param {number} peak */
const has = (peak) => (Number.isNaN(peak) ? "is 0 at every offset" : `is highest at offset ${tenth(peak)}`)

/** @type {(ctx: Ctx, look: Look, x: number, y: number, length: number, angle: number, name: string, color: number) =>
 *   void} */
const vector = (ctx, look, x, y, length, angle, name, color) => {
  hand(ctx, x, y, length, angle, look.series[color], 3)
  const [tipX, tipY] = [x + (length + 9) * Math.cos(angle), y - (length + 9) * Math.sin(angle)]
  write(ctx, look, name, tipX, tipY, { color: look.letters[color], weight: 700, align: "center", halo: true })
}

/** @type {(ctx: Ctx, x: number, y: number, radius: number, from: number, to: number, color: string) => void} */
const sector = (ctx, x, y, radius, from, to, color) => {
  ctx.save()
  ctx.beginPath()
  ctx.moveTo(x, y)
  ctx.arc(x, y, radius, -from, -to, to > from)
  ctx.closePath()
  ctx.globalAlpha = 0.4
  ctx.fillStyle = color
  ctx.fill()
  ctx.restore()
}
