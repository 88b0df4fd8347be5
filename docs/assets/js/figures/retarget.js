// Two trained heads that look four back are told to look elsewhere: RoPE's hands come back by chance, PoPE's all at
// once.

import { agreement, bestDistances, ofChannels, ofPairs, turned } from "../math/retarget.js"
import { axes, circle, dashed, dot, faint, hand, line, write } from "../kit/plot.js"

/** @import { Scales } from "../kit/plot.js" */
/** @typedef {{ theta: number[], q: number[][], k: number[][], phase?: number[] }} Head */

const [LEFT, RIGHT] = [30, 14] // pixels beside a chart
const [CURVE, BARS] = [90, 52] // how high a curve is, and the bars under it with their words
const NARROW = 520 // pixels below which PoPE's hands stand in two rows
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
    `Both heads have learned “${taught} back”. Now tell them ${target}. There are ${all} pairs of a letter that asks and a letter that is asked. How many of them will score highest at ${target}?`,
    ["all, in both", following, "fewer than half, in both"],
    (answer) => {
      ;[reach.value, back.value, learned.value] = [String(reaches[0]), target, false]
      const [ofRope, ofPope] = both().map(follow)
      return `${answer === following ? "Yes" : "No"}: ${ofRope} in RoPE and ${ofPope} in PoPE. In RoPE the letters turn the hands, and training made these meet only at the distances that it met. In PoPE no letter can turn a hand: all meet where they are told.`
    },
  )
  const letter = (/** @type {string} */ label, /** @type {number} */ value) =>
    stage.slider(label, { min: 0, max: letters.length - 1, value, show: (v) => letters[v] })
  const place = { min: 0, max: reaches[0] - 1, value: taught }
  const back = stage.slider("look r back", place)
  const asks = letter("asks", pair[0])
  const asked = letter("key", pair[1])
  const distance = stage.slider("it stands Δ back", place)
  const reach = stage.choice("distances below", reaches.map(String))
  const learned = stage.toggle("keep PoPE’s learned phases")
  let last = taught
  stage.each(() => {
    for (const control of [back, distance]) if (control.max !== far() - 1) control.max = far() - 1
    if (back.value !== last) distance.value = last = back.value // the hands are those of the key that is wanted
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
  /** By how much keys seem nearer: phases r θ begin at 0, what is learned begins at the distance that was taught.
   * @param {typeof sides[0]} side */
  const nearer = (side) => (side === sides[1] ? back.value : back.value - taught)
  const chosen = (/** @type {typeof sides[0]} */ side) => side.hands[asks.value * letters.length + asked.value]
  const at = (/** @type {typeof sides[0]} */ side, /** @type {number} */ place) =>
    agreement(chosen(side), side.theta, place - nearer(side))

  let [key, best] = ["", /** @type {Int32Array[]} */ ([])]
  const tops = (/** @type {typeof sides[0]} */ side) => {
    const now = [back.value, reach.value, learned.value].join()
    if (now !== key) best = sides.map((side) => bestDistances(side.hands, side.theta, nearer(side), far()))
    key = now
    return best[sides.indexOf(side)]
  }
  const follow = (/** @type {typeof sides[0]} */ side) => tops(side).filter((peak) => peak === back.value).length
  const top = (/** @type {typeof sides[0]} */ side) => tops(side)[asks.value * letters.length + asked.value]

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
            `${side.name}: this pair scores highest at ${top(side)}, ${follow(side)} of ${all} pairs at ${back.value}`,
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
        write(ctx, look, `${theta.length} hands at Δ = ${distance.value}`, LEFT + 42, high + 10, { color: look.soft })
        const { size } = chosen(side)
        const longest = Math.max(...size)
        turned(chosen(side), theta, distance.value - nearer(side)).forEach((angle, c) => {
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
        const labels = row ? { xlabel: "distance Δ" } : { xticks: [] }
        const bars = axes(ctx, look, strip, { x: ends, y: [0, all], yticks: [], ...labels })
        const places = Array.from({ length: 4 * far() - 3 }, (_, i) => i / 4)
        line(ctx, to, ends, [0, 0], look.rule, 1)
        dashed(ctx, [4, 3], () => line(ctx, to, [back.value, back.value], [-1, 1.4], look.soft, 1.2))
        const curve = places.map((place) => at(side, place))
        line(ctx, to, places, curve, look.series[color], far() > 100 ? 1.2 : 2)
        dot(ctx, to.x(distance.value), to.y(at(side, distance.value)), look.series[color], 4.5)

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
      if (down) distance.value = Math.round(to.atX(x))
    },
    arrows: { x: distance },
  })
  stage.say(() => {
    const [ofRope, ofPope] = both()
    const share = (/** @type {typeof sides[0]} */ side) => at(side, distance.value).toFixed(2).replace("-", "−")
    const phases = learned.value ? " with its learned phases moved along" : ""
    return `Told to look ${back.value} back, of distances below ${far()}: when ${letters[asks.value]} asks for ${letters[asked.value]}, RoPE scores highest at ${top(ofRope)} and PoPE${phases} at ${top(ofPope)}. ${follow(ofRope)} of ${all} pairs score highest at ${back.value} in RoPE, ${follow(ofPope)} in PoPE. At distance ${distance.value} this pair’s hands reach ${share(ofRope)} and ${share(ofPope)} of their length.`
  })
}
