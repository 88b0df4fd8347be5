// A bit is a rotation, rounded: it is 1 while a pair of the same wavelength is in the second half of its rotation.

import { bit, flips, leap, stride } from "../math/clocks.js"
import { dial } from "../kit/dial.js"
import { axes, fill, line, write } from "../kit/plot.js"

/** @import { Ctx, Look, Scales } from "../kit/plot.js" */

/** @param {import("../kit/stage.js").Stage} stage */
export default function bitsAndHands(stage) {
  /** @type {{ theta: number[], last: number, start: number, ask: number }} */
  const { theta, last, start, ask } = stage.data
  const count = theta.length
  const moved = stride(theta)
  const lengths = Array.from({ length: last }, (_, q) => leap(q, q + 1))

  stage.predict(
    `From ${ask} to ${ask + 1}, how many of the ${count} bits flip, and how far do the pairs move?`,
    ["one flips, a small step", "all flip, a step like any other", "all flip, and the pairs leap"],
    (answer) => {
      p.value = ask
      const verdict = answer.endsWith("any other") ? "Yes." : "Look: step on by one."
      return `${verdict} ${flips(ask, ask + 1)} bits flip at once, their longest step. The pairs move by ${moved.toFixed(2)}, as at every step.`
    },
  )
  const p = stage.film("position", { min: 0, max: last, value: start, rate: 2 })

  const now = () => Math.floor(p.value)

  stage.canvas({
    label: () => `Position ${now()}: bits ${binary(now(), count)} under ${count} pairs as rotating vectors`,
    ratio: (width) => width / count + 40,
    draw: (ctx, width, _height, look) => {
      const cell = width / count
      theta.forEach((frequency, i) => {
        const x = (count - i - 0.5) * cell
        clock(ctx, look, x, cell / 2, cell * 0.38, p.value * frequency, look.series[i])
        const on = bit(now(), i) === 1
        const color = on ? look.letters[i] : look.soft
        write(ctx, look, String(Number(on)), x, cell + 14, { size: 22, weight: 600, align: "center", color })
        if (now() < last && bit(now() + 1, i) !== bit(now(), i)) ctx.fillRect(x - 9, cell + 28, 18, 2)
      })
    },
  })
  const strip = { left: 34, top: 24, height: 84 }
  /** @type {Scales} */
  let scales
  stage.canvas({
    label: () => `The length of each step, in bits and in pairs. ${reading()}`,
    ratio: () => strip.top + strip.height + 40,
    draw: (ctx, width, _height, look) => {
      const box = { ...strip, width: width - strip.left - 8 }
      scales = axes(ctx, look, box, {
        x: [-0.5, last - 0.5],
        y: [0, Math.max(moved, ...lengths)],
        xlabel: "position",
        ylabel: "length",
        title: "Next step of the bits",
      })
      lengths.forEach((length, q) => {
        ctx.globalAlpha = q === now() ? 1 : 0.45
        const [color, height] = [q === now() ? look.series[1] : look.soft, scales.y(0) - scales.y(length)]
        fill(ctx, color, scales.x(q - 0.35), scales.y(length), scales.x(0.7) - scales.x(0), height)
      })
      ctx.globalAlpha = 1
      line(ctx, scales, [-0.5, last - 0.5], [moved, moved], look.series[0], 2)
      write(ctx, look, `of the pairs ${moved.toFixed(2)}`, box.left + box.width, box.top - 7, {
        color: look.letters[0],
        align: "right",
        base: "bottom",
      })
    },
    point: ({ x, down }) => {
      if (down) p.value = Math.round(scales.atX(x))
    },
    arrows: { x: p },
  })
  const reading = () => {
    const here = `Position ${now()} is ${binary(now(), count)}`
    if (now() === last) return `${here}, the last that ${count} bits can write.`
    const flipped = flips(now(), now() + 1)
    return `${here}. The step to ${now() + 1} flips ${flipped} of ${count} bits (underlined), a length of ${lengths[now()].toFixed(2)}. It moves the pairs by ${moved.toFixed(2)}, as every step does.`
  }
  stage.say(reading)
}

/** A circle whose vector starts at the top and rotates clockwise; its left half is where the bit is 1.
 * @type {(ctx: Ctx, look: Look, x: number, y: number, radius: number, angle: number, color: string) => void} */
const clock = (ctx, look, x, y, radius, angle, color) => {
  ctx.beginPath()
  ctx.arc(x, y, radius, Math.PI / 2, (3 * Math.PI) / 2)
  ctx.fillStyle = look.soft
  ctx.globalAlpha = 0.2
  ctx.fill()
  ctx.globalAlpha = 1
  dial(ctx, look, x, y, radius, Math.PI / 2 - angle, color)
  ctx.fillStyle = look.ink
}

/** @param {number} p @param {number} count */
const binary = (p, count) => Array.from({ length: count }, (_, i) => bit(p, count - 1 - i)).join("")
