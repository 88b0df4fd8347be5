// Two trained heads, whose logits peak four back, are sent to another offset: RoPE's phases agree elsewhere by
// content, PoPE's where they are told.

import { agreement, bestDistances, ofChannels, ofPairs, turned } from "../math/retarget.js"
import { axes, circle, dashed, dot, faint, hand, line, write } from "../kit/plot.js"

/** @import { Scales } from "../kit/plot.js" */
/** @typedef {{ theta: number[], q: number[][], k: number[][], phase?: number[] }} Head */

const [LEFT, RIGHT] = [30, 14] // pixels beside a chart
const [CURVE, BARS] = [90, 52] // how high a curve is, and the bars under it with their words
const NARROW = 520 // pixels below which PoPE's vectors stand in two rows
const UP = Math.PI / 2

/** @param {import("../kit/stage.js").Stage} stage */
export default function retarget(stage) {
  /** @type {{ taught: number, told: number, pair: [number, number], reaches: number[], rope: Head,
   *   pope: Head & { phase: number[] } }} */
  const { taught, told: target, pair, reaches, rope, pope } = stage.data
  const letters = rope.q.map((_, i) => String.fromCharCode(65 + i))
  const all = letters.length ** 2

  const following = "all in PoPE, fewer than half in RoPE"
  stage.predict(
    `Both heads have learned to attend to offset ${taught}. Now send them to offset ${target}. There are ${all} pairs of a letter as query and a letter as key. For how many of them will the logit be highest at ${target}?`,
    ["all, in both", following, "fewer than half, in both"],
    (answer) => {
      ;[reach.value, back.value, learned.value] = [String(reaches[0]), target, false]
      const [ofRope, ofPope] = both().map(follow)
      return `${answer === following ? "Yes" : "No"}: ${ofRope} in RoPE and ${ofPope} in PoPE. In RoPE the letters set phases, and training made these agree only at the offsets that it met. In PoPE no letter can change a phase: all agree at the offset that the phase biases set.`
    },
  )
  const letter = (/** @type {string} */ label, /** @type {number} */ value) =>
    stage.slider(label, { min: 0, max: letters.length - 1, value, show: (v) => letters[v] })
  const place = { min: 0, max: reaches[0] - 1, value: taught }
  const back = stage.slider("wanted offset r", place)
  const query = letter("query", pair[0])
  const key = letter("key", pair[1])
  const offset = stage.slider("offset Δ", place)
  const reach = stage.choice("offsets below", reaches.map(String))
  const learned = stage.toggle("keep PoPE’s learned phase biases")
  let last = taught
  stage.each(() => {
    for (const control of [back, offset]) if (control.max !== far() - 1) control.max = far() - 1
    if (back.value !== last) offset.value = last = back.value // the vectors are those of the key that is wanted
  })

  const far = () => Number(reach.value)
  const zeros = pope.phase.map(() => 0)
  const sides = [
    { name: "RoPE", color: 1, theta: rope.theta, hands: pairs((i, j) => ofPairs(rope.q[i], rope.k[j])) },
    { name: "PoPE", color: 0, theta: pope.theta, hands: pairs((i, j) => ofChannels(pope.q[i], pope.k[j], zeros)) },
    { name: "PoPE", color: 0, theta: pope.theta, hands: pairs((i, j) => ofChannels(pope.q[i], pope.k[j], pope.phase)) },
  ]
  /** @param {(i: number, j: number) => import("../math/retarget.js").Hands} make */
  function pairs(make) {
    return letters.flatMap((_, i) => letters.map((_, j) => make(i, j)))
  }
  const both = () => (learned.value ? [sides[0], sides[2]] : [sides[0], sides[1]])
  /** By how much keys seem nearer: phase biases r θ begin at 0, learned ones at the offset that was taught.
   * @param {typeof sides[0]} side */
  const nearer = (side) => (side === sides[1] ? back.value : back.value - taught)
  const chosen = (/** @type {typeof sides[0]} */ side) => side.hands[query.value * letters.length + key.value]
  const at = (/** @type {typeof sides[0]} */ side, /** @type {number} */ place) =>
    agreement(chosen(side), side.theta, place - nearer(side))

  let [shown, best] = ["", /** @type {Int32Array[]} */ ([])]
  const tops = (/** @type {typeof sides[0]} */ side) => {
    const now = [back.value, reach.value, learned.value].join()
    if (now !== shown) best = sides.map((side) => bestDistances(side.hands, side.theta, nearer(side), far()))
    shown = now
    return best[sides.indexOf(side)]
  }
  const follow = (/** @type {typeof sides[0]} */ side) => tops(side).filter((peak) => peak === back.value).length
  const top = (/** @type {typeof sides[0]} */ side) => tops(side)[query.value * letters.length + key.value]

  const layout = (/** @type {number} */ width) => {
    const columns = width < NARROW ? rope.theta.length : pope.theta.length
    const radius = Math.min(19, (width - LEFT - RIGHT) / columns / 2 - 1)
    const tall = both().map(({ theta }) => (2 * radius + 2) * Math.ceil(theta.length / columns))
    return { columns, radius, tall, high: tall[0] + CURVE + BARS + 46 }
  }
  /** @type {Scales} */
  let to
  stage.canvas({
    label: () =>
      both()
        .map(
          (side) =>
            `${side.name}: this pair’s logit is highest at ${top(side)}, that of ${follow(side)} of ${all} pairs at ${back.value}`,
        )
        .join("; "),
    ratio: (width) => 2 * layout(width).high + layout(width).tall[1] - layout(width).tall[0] + 26,
    draw: (ctx, width, _height, look) => {
      const { columns, radius, tall, high: below } = layout(width)
      const room = width - LEFT - RIGHT
      both().forEach((side, row) => {
        const { name, color, theta } = side
        const high = row * below
        const across = Math.min(columns, theta.length)
        write(ctx, look, name, LEFT, high + 10, { weight: 700, size: 13, color: look.letters[color] })
        const what = `${theta.length} ${color ? "pairs" : "channels"} at Δ = ${offset.value}`
        write(ctx, look, what, LEFT + 42, high + 10, { color: look.soft })
        const { size } = chosen(side)
        const longest = Math.max(...size)
        turned(chosen(side), theta, offset.value - nearer(side)).forEach((angle, c) => {
          const x = LEFT + (((c % across) + 0.5) / across) * room
          const y = high + radius + 22 + Math.floor(c / across) * (2 * radius + 2)
          circle(ctx, x, y, radius, look.rule, 1)
          // where it points, however short it is
          faint(ctx, 0.45, () => hand(ctx, x, y, radius, UP - angle, look.series[color], 1))
          hand(ctx, x, y, (radius * size[c]) / longest, UP - angle, look.series[color], 3.4)
        })

        const box = { left: LEFT, top: high + tall[row] + 40, width: room, height: CURVE - 14 }
        const ends = [-0.5, far() - 0.5]
        to = axes(ctx, look, box, { x: ends, xticks: [], y: [-1, 1.4], yticks: [-1, 0, 1] })
        const strip = { ...box, top: box.top + box.height + 20, height: BARS - 22 }
        const labels = row ? { xlabel: "offset Δ" } : { xticks: [] }
        const bars = axes(ctx, look, strip, { x: ends, y: [0, all], yticks: [], ...labels })
        const places = Array.from({ length: 4 * far() - 3 }, (_, i) => i / 4)
        line(ctx, to, ends, [0, 0], look.rule, 1)
        dashed(ctx, [4, 3], () => line(ctx, to, [back.value, back.value], [-1, 1.4], look.soft, 1.2))
        const curve = places.map((place) => at(side, place))
        line(ctx, to, places, curve, look.series[color], far() > 100 ? 1.2 : 2)
        dot(ctx, to.x(offset.value), to.y(at(side, offset.value)), look.series[color], 4.5)

        const counts = new Map()
        for (const peak of tops(side)) counts.set(peak, (counts.get(peak) ?? 0) + 1)
        const broad = Math.max(2, room / far() - 2)
        for (const [peak, count] of counts) {
          const reaching = Math.max(2, (count / all) * strip.height)
          ctx.fillStyle = peak === back.value ? look.series[color] : look.soft
          ctx.fillRect(bars.x(peak) - broad / 2, strip.top + strip.height - reaching, broad, reaching)
        }
        const small = { size: 11.5, color: look.letters[color] }
        write(ctx, look, `${follow(side)} of ${all} pairs peak at ${back.value}`, LEFT + 6, strip.top - 8, small)
        const x = to.x(top(side))
        const mark = { color: look.letters[color], halo: true, size: 11, align: /** @type {const} */ ("center") }
        write(ctx, look, "▼", x, to.y(at(side, top(side))) - 8, mark)
        write(ctx, look, `peak at ${top(side)}`, Math.max(LEFT + 30, Math.min(LEFT + room - 26, x)), box.top - 1, mark)
      })
    },
    point: ({ x, down }) => {
      if (down) offset.value = Math.round(to.atX(x))
    },
    arrows: { x: offset },
  })
  stage.say(() => {
    const [ofRope, ofPope] = both()
    const share = (/** @type {typeof sides[0]} */ side) => at(side, offset.value).toFixed(2).replace("-", "−")
    const phases = learned.value ? " with its learned phase biases moved along" : ""
    return `Sent to offset ${back.value}, of offsets below ${far()}: with ${letters[query.value]} as query and ${letters[key.value]} as key RoPE’s logit is highest at ${top(ofRope)} and PoPE’s${phases} at ${top(ofPope)}. ${follow(ofRope)} of ${all} pairs have their peak at ${back.value} in RoPE, ${follow(ofPope)} in PoPE. At offset ${offset.value} the logit of this pair is ${share(ofRope)} and ${share(ofPope)} of the most that its magnitudes allow.`
  })
}
