// A bit is a rounded hand: it is 1 while a hand of the same period is in the second half of its turn.

import { bit, flips, stride } from "../math/clocks.js"
import { hand, write } from "../kit/plot.js"

/** @param {import("../kit/stage.js").Stage} stage */
export default function bitsAndHands(stage) {
  /** @type {{ theta: number[], last: number, start: number, ask: number }} */
  const { theta, last, start, ask } = stage.data
  const count = theta.length
  const moved = stride(theta)

  stage.predict(
    `From ${ask} to ${ask + 1}, how many of the ${count} bits flip, and how far do the hands move?`,
    ["one flips, a small step", "all flip, a step like any other", "all flip, and the hands leap"],
    (given) => {
      p.value = ask
      const verdict = given.endsWith("any other") ? "Yes." : "Look: step on by one."
      return `${verdict} ${flips(ask, ask + 1)} bits flip at once. The hands move by ${moved.toFixed(2)}, as at every step.`
    },
  )
  const p = stage.film("position", { min: 0, max: last, value: start, rate: 2 })

  stage.canvas({
    label: () =>
      `Position ${Math.floor(p.value)}: bits ${written(Math.floor(p.value), count)} under the hands of ${count} dials`,
    ratio: (width) => width / count + 40,
    draw: (ctx, width, _height, look) => {
      const cell = width / count
      const radius = cell * 0.38
      theta.forEach((speed, i) => {
        const x = (count - i - 0.5) * cell
        const y = cell / 2
        const on = bit(Math.floor(p.value), i) === 1
        ctx.beginPath()
        ctx.arc(x, y, radius, Math.PI / 2, (3 * Math.PI) / 2)
        ctx.fillStyle = look.ground
        ctx.fill()
        ctx.beginPath()
        ctx.arc(x, y, radius, 0, 2 * Math.PI)
        ctx.strokeStyle = look.rule
        ctx.lineWidth = 1.2
        ctx.stroke()
        hand(ctx, x, y, radius, Math.PI / 2 - p.value * speed, look.series[i % 6])
        write(ctx, look, String(Number(on)), x, cell + 14, {
          size: 22,
          weight: 600,
          align: "center",
          color: on ? look.letters[i % 6] : look.soft,
        })
      })
    },
    point: ({ x, down }) => {
      if (down) p.value = Math.round((x / stage.element.clientWidth) * last)
    },
    arrows: { x: p },
  })
  stage.say(() => {
    const now = Math.floor(p.value)
    const next =
      now < last
        ? `The step to ${now + 1} flips ${flips(now, now + 1)} of ${count} bits and moves the hands by ${moved.toFixed(2)}.`
        : ""
    return `Position ${now} is ${written(now, count)}. ${next}`
  })
}

/** @param {number} p @param {number} count */
const written = (p, count) => Array.from({ length: count }, (_, i) => bit(p, count - 1 - i)).join("")
