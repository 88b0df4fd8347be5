// Two curves over the offset, a query that mixes them, and the offset at which the mix is highest.

import { axes, dot, hand, line, percent, short, write } from "../kit/plot.js"
import { softmax } from "../math/attention.js"
import { corners, mix } from "../math/profiles.js"

const ROUND = 36 // directions of a query

/** @param {import("../kit/stage.js").Stage} stage */
export default function profileMixer(stage) {
  /** @type {{ bank: number[][], most: number, start: number }} */
  const { bank, most, start } = stage.data
  const distances = bank[0].map((_, distance) => distance)
  const reached = corners(bank)
  const missed = distances.filter((distance) => !reached.includes(distance))

  stage.predict(
    `Two curves, ${distances.length} offsets. How many of them can some query select, so that its bias is highest there?`,
    ["2 of them", `${reached.length} of them`, `all ${distances.length}`],
    (answer) => {
      turn.value = start
      const right = answer === `${reached.length} of them`
      return `${right ? "Yes" : "No"}: ${reached.length}. The query's states are a direction, and the bias is highest at the point that lies furthest that way. Offset ${missed.join(", ")} lies between its neighbors, and some other point is always further out. Rotate the query's states and see.`
    },
  )
  const degrees = (/** @type {number} */ v) => `${(360 * v) / ROUND}°`
  const turn = stage.slider("direction of the states", { min: 0, max: ROUND - 1, value: start, show: degrees })
  const size = stage.slider("their length", { min: 0, max: most, value: most / 2, step: 0.5, show: short })

  const states = () => {
    const angle = (2 * Math.PI * turn.value) / ROUND
    return [size.value * Math.cos(angle), size.value * Math.sin(angle)]
  }
  const scored = () => {
    const curve = mix(states(), bank)
    const weights = softmax(curve)
    return { curve, weights, best: curve.indexOf(Math.max(...curve)) }
  }

  let plane = { x: 0, y: 0 }
  stage.canvas({
    label: () => {
      const { weights, best } = scored()
      return `Left ${distances.length} points, one an offset, and the states of the query. Right its bias at each offset, highest at ${best}, with ${percent(weights[best])} of the weight. The arrow keys rotate the states`
    },
    ratio: (width) => (width < 480 ? 400 : 230),
    draw: (ctx, width, _height, look) => {
      const below = width < 480
      const side = below ? 180 : 210
      const { curve, best } = scored()
      const radius = side / 2 - 22
      plane = { x: below ? width / 2 : side / 2 + 4, y: side / 2 + 10 }
      const at = (/** @type {number} */ n) =>
        /** @type {[number, number]} */ ([plane.x + radius * bank[0][n], plane.y - radius * bank[1][n]])
      for (const n of distances) {
        const color = look.series[n === best ? 1 : 0]
        dot(ctx, ...at(n), missed.includes(n) ? look.soft : color, n === best ? 6 : 4)
        const [x, y] = [1.2 * bank[0][n], 1.2 * bank[1][n]]
        write(ctx, look, String(n), plane.x + radius * x, plane.y - radius * y, { size: 11, align: "center" })
      }
      const [c1, c2] = states()
      hand(ctx, plane.x, plane.y, (radius * size.value) / most, Math.atan2(c2, c1), look.ink, 2)

      const left = below ? 44 : side + 66
      const box = { left, top: below ? side + 40 : 14, width: width - left - 12, height: below ? 140 : 170 }
      const last = distances.length - 1
      const high = Math.max(1, size.value) * 1.15
      const to = axes(ctx, look, box, { x: [0, last], y: [-high, high], xlabel: "offset Δ", ylabel: "bias" })
      bank.forEach((own) => line(ctx, to, distances, own, look.soft, 1))
      line(ctx, to, distances, curve, look.series[0], 2.4)
      dot(ctx, to.x(best), to.y(curve[best]), look.series[1], 6)
    },
    point: ({ x, y, down }) => {
      if (!down) return
      const angle = Math.atan2(plane.y - y, x - plane.x)
      turn.value = Math.round((angle * ROUND) / (2 * Math.PI) + ROUND) % ROUND
    },
    arrows: { x: turn, y: size },
  })
  stage.say(() => {
    const { curve, weights, best } = scored()
    const [c1, c2] = states().map((state) => short(Number(state.toFixed(1))))
    if (!size.value)
      return `States 0 and 0: no offset is preferred, and each gets ${percent(weights[0])} of the weight.`
    return `States ${c1} and ${c2}: the highest bias, ${short(Number(curve[best].toFixed(2)))}, is at offset ${best}. Of equal tokens this one gets ${percent(weights[best])} of the weight.`
  })
}
