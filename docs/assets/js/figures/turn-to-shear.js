// A generator between rotation and shear: a key's vector multiplied again and again, and its logit over the offset.

import { axes, dot, line, short } from "../kit/plot.js"
import { walked } from "../math/groups.js"

const FINE = 4 // points a token
const LEAST = 5 // of logits that are shown: that of the largest amplitude drawn above

/** @param {import("../kit/stage.js").Stage} stage */
export default function turnToShear(stage) {
  /** @type {{ theta: number, reach: number, shares: number[] }} */
  const { theta, reach, shares } = stage.data
  const times = short(1 / Math.sqrt(shares[2]))
  stage.predict(
    "Let c fall from 1 to 0, and the wavelength grows. Does the amplitude fall, stay, or grow?",
    ["it falls", "it stays", "it grows"],
    (answer) => {
      share.value = shares[2]
      return `${answer === "it grows" ? "Yes" : "No"}: it grows. At c = ${shares[2]} wavelength and amplitude are ${times} times as large.`
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
  const vectors = () => back.map((steps) => walked(theta, share.value, key(), steps))
  /** Half of what an axis shows: as much as the drawn waves need, and more for what grows. @param {number[]} values */
  const half = (values) => 1.04 * Math.max(LEAST, ...values.map(Math.abs))
  const around = (/** @type {number} */ far) => [-far, far]

  stage.canvas({
    label: () => `The vector of a key in its plane, and its logit over ${reach} offsets. ${reading()}`,
    ratio: (width) => (width > 520 ? 0.42 * width : 1.05 * width),
    draw: (ctx, width, height, look) => {
      const beside = width > 520
      const points = vectors()
      const [first, second] = [points.map(([x]) => x), points.map(([, y]) => y)]
      const side = beside ? width * 0.4 : width
      const tall = beside ? height : height / 2
      const left = { left: 52, top: 26, width: side - 74, height: tall - 78 }
      const far = half(first)
      const plane = axes(ctx, look, left, {
        x: around(far),
        y: around((far * left.height) / left.width), // so that a circle is round
        title: "The key, multiplied",
        xlabel: "first channel",
        ylabel: "second channel",
      })
      line(ctx, plane, first, second, look.series[0])
      dot(ctx, plane.x(first[0]), plane.y(second[0]), look.ink)
      const right = beside
        ? { left: side + 52, top: 26, width: width - side - 64, height: tall - 78 }
        : { left: 52, top: tall + 26, width: width - 74, height: tall - 78 }
      const labels = { title: "Its logit", xlabel: "offset Δ" }
      const logits = axes(ctx, look, right, { x: [0, reach], y: around(far), ...labels })
      line(ctx, logits, back, first, look.series[1], 2)
      dot(ctx, logits.x(0), logits.y(first[0]), look.ink)
    },
    arrows: { x: share, y: direction },
  })
  const reading = () => {
    const [c, [x, y]] = [share.value, key()]
    if (c === 0) {
      const slope = Math.abs(theta * y)
      if (slope < 1e-9) return "A shear changes only keys with something in their second channel: here the logit stays."
      return `A shear: the logit ${y < 0 ? "falls" : "rises"} linearly, by ${slope.toFixed(2)} a token${y === -1 ? ", which is ALiBi" : ""}.`
    }
    const rate = theta * Math.sqrt(Math.abs(c))
    if (c < 0)
      return `No wave: in the end the logit grows, up or down, by ${(100 * Math.expm1(rate)).toFixed(1)}% a token.`
    const top = Math.hypot(x, y / Math.sqrt(c))
    const name = c === 1 ? "A rotation, as in RoPE" : "Between rotation and shear"
    return `${name}: wavelength ${((2 * Math.PI) / rate).toFixed(1)} tokens, logits up to ${top.toFixed(2)}.`
  }
  stage.say(reading)
}
