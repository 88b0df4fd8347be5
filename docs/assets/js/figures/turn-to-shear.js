// A generator that is flattened from a turn to a shear: the way of a key in its plane, and its score over distance.

import { axes, dot, line, short } from "../kit/plot.js"
import { walked } from "../math/groups.js"

const FINE = 4 // points a token
const LEAST = 5 // of scores that are shown: that of the flattest turn drawn above

/** @param {import("../kit/stage.js").Stage} stage */
export default function turnToShear(stage) {
  /** @type {{ theta: number, reach: number, shares: number[] }} */
  const { theta, reach, shares } = stage.data
  const times = short(1 / Math.sqrt(shares[2]))
  stage.predict(
    "Let c fall from 1 to 0, and the wave gets longer. Does it get lower, stay as high, or get higher?",
    ["lower", "as high", "higher"],
    (answer) => {
      share.value = shares[2]
      return `${answer === "higher" ? "Yes" : "No"}: it gets higher. At c = ${shares[2]} it takes ${times} times as many tokens, and climbs ${times} times as high.`
    },
  )
  const share = stage.slider("c", { min: -0.04, max: 1, step: 0.01, value: shares[0], show: short })
  const show = (/** @type {number} */ v) => `${v}°`.replace("-", "−")
  const direction = stage.slider("angle of the key", { min: -180, max: 180, step: 5, value: -90, show })
  const key = () => {
    const angle = (direction.value / 180) * Math.PI
    return /** @type {[number, number]} */ ([Math.cos(angle), Math.sin(angle)])
  }
  const back = Array.from({ length: reach * FINE + 1 }, (_, i) => i / FINE)
  const way = () => back.map((steps) => walked(theta, share.value, key(), steps))
  /** Half of what an axis shows: as much as the drawn waves need, and more for what grows. @param {number[]} values */
  const half = (values) => 1.04 * Math.max(LEAST, ...values.map(Math.abs))
  const around = (/** @type {number} */ far) => [-far, far]

  stage.canvas({
    label: () => `The way of a key in its plane, and its score over ${reach} tokens. ${reading()}`,
    ratio: (width) => (width > 520 ? 0.42 * width : 1.05 * width),
    draw: (ctx, width, height, look) => {
      const beside = width > 520
      const places = way()
      const [first, second] = [places.map(([x]) => x), places.map(([, y]) => y)]
      const side = beside ? width * 0.4 : width
      const tall = beside ? height : height / 2
      const left = { left: 52, top: 26, width: side - 74, height: tall - 78 }
      const far = half(first)
      const plane = axes(ctx, look, left, {
        x: around(far),
        y: around((far * left.height) / left.width), // so that a circle is round
        title: "The way of the key",
        xlabel: "first channel",
        ylabel: "second channel",
      })
      line(ctx, plane, first, second, look.series[0])
      dot(ctx, plane.x(first[0]), plane.y(second[0]), look.ink)
      const right = beside
        ? { left: side + 52, top: 26, width: width - side - 64, height: tall - 78 }
        : { left: 52, top: tall + 26, width: width - 74, height: tall - 78 }
      const labels = { title: "Its score", xlabel: "tokens back" }
      const scores = axes(ctx, look, right, { x: [0, reach], y: around(far), ...labels })
      line(ctx, scores, back, first, look.series[1], 2)
      dot(ctx, scores.x(0), scores.y(first[0]), look.ink)
    },
    arrows: { x: share, y: direction },
  })
  const reading = () => {
    const [c, [x, y]] = [share.value, key()]
    if (c === 0) {
      const slope = Math.abs(theta * y)
      if (slope < 1e-9)
        return "A shear moves only keys that hold something in their second channel: here the score stays."
      return `A shear: a straight line that ${y < 0 ? "falls" : "rises"} by ${slope.toFixed(2)} a token${y === -1 ? ", which is ALiBi" : ""}.`
    }
    const rate = theta * Math.sqrt(Math.abs(c))
    if (c < 0)
      return `No wave: in the end the score grows, up or down, by ${(100 * Math.expm1(rate)).toFixed(1)}% a token.`
    const top = Math.hypot(x, y / Math.sqrt(c))
    const name = c === 1 ? "A turn, as in RoPE" : "A flattened turn"
    return `${name}: once round in ${((2 * Math.PI) / rate).toFixed(1)} tokens, with scores up to ${top.toFixed(2)}.`
  }
  stage.say(reading)
}
