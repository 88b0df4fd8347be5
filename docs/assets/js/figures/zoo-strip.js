// One model's pairs by wavelength, against the longest distance of its training; and where it stands among models.

import { axes, dot, fill, line, percent, short, stroke, whole, write } from "../kit/plot.js"
import { circle, keeping, ntkBase, share, unfinished, waves } from "../math/zoo.js"

/** @import { Box, Ctx, Look } from "../kit/plot.js" */
/** @typedef {[name: string, head: number, turning: number, base: number, met: number]} Row */
/** @typedef {{ name: string, head: number, turning: number, base: number, met: number, proportional: boolean }} Plan */

const WAVES = [4, 1e9] // both axes, in tokens
const LENGTHS = [256, 131_072]
const BASES = [1e3, 1e8]
const LEFT = 50
const STRIP = { top: 26, height: 74 }
const PLANE = 208 // pixels from the top

const power = (/** @type {number} */ v) => (v < 1e6 ? short(v) : `${short(v / 1e6)} M`)

/** @param {import("../kit/stage.js").Stage} stage */
export default function zooStrip(stage) {
  /** @type {{ models: Row[], start: string, lines: number[] }} */
  const { models, start, lines } = stage.data
  const unchanged = { proportional: false }
  const rows = models.map(([name, head, turning, base, met]) => ({ name, head, turning, base, met, ...unchanged }))
  const row = (/** @type {string} */ name) => rows.find((candidate) => candidate.name === name) ?? rows[0]
  const near = (/** @type {number} */ v) => {
    const mark = rows.find(({ base }) => Math.abs(Math.log(v / base)) < 0.02)
    return mark ? mark.base : Number(v.toPrecision(3))
  }
  const even = (/** @type {number} */ v) => {
    const power = 2 ** Math.round(Math.log2(v))
    return Math.abs(Math.log(v / power)) < 0.02 ? power : Number(v.toPrecision(3))
  }
  const first = row(start)

  stage.predict(
    `${first.name}: ${count(first)} pairs never complete a rotation. Make its heads twice as wide. What becomes of the share?`,
    ["it halves", "it stays", "it doubles"],
    (answer) => {
      model.value = start
      take()
      head.value = 2 * first.head
      follow()
      const share = (/** @type {Plan} */ plan) => `${count(plan)}, ${percent(late(plan) / wavesOf(plan).length)}`
      const [before, after] = [first, plan()].map(share)
      return `${answer === "it stays" ? "Yes" : "No, it stays"}: ${after}, and before ${before}. There are twice as many pairs, spread evenly over the same range of frequencies.`
    },
  )
  const model = stage.select("model", rows.map(({ name }) => name), start) // prettier-ignore
  /** @param {string} label @param {number[]} ends @param {number} value @param {(v: number) => number} round */
  const logarithmic = (label, [min, max], value, round) =>
    stage.slider(label, { min, max, value, log: true, show: (v) => whole(round(v)) })
  const base = logarithmic("base", BASES, first.base, near)
  const met = logarithmic("longest distance", LENGTHS, first.met, even)
  const head = stage.slider("head width", { min: 16, max: 512, step: 2, value: first.head })
  const turning = stage.slider("rotated channels", { min: 4, max: first.head, step: 2, value: first.turning })
  const proportional = stage.toggle("slow pairs at frequency 0 (p-RoPE)")
  const rule = (/** @type {string} */ label, /** @type {() => number} */ raised) =>
    stage.button(label, () => (base.value = raised()))
  rule("base by the NTK rule", () => ntkBase(published().base, even(met.value) / published().met, turning.value))
  rule("base that keeps the share", () => keeping(even(met.value), share(published().met, published().base)))
  const reset = stage.button("as published", () => take())

  const published = () => row(model.value)
  /** @returns {Plan} */
  const plan = () => ({
    name: model.value,
    head: head.value,
    turning: turning.value,
    base: near(base.value),
    met: even(met.value),
    proportional: proportional.value,
  })
  let [chosen, wide] = [start, first.head]
  const take = () => {
    const its = published()
    chosen = its.name
    wide = head.value = turning.max = its.head
    ;[turning.value, base.value, met.value, proportional.value] = [its.turning, its.base, its.met, false]
  }
  const follow = () => {
    const part = turning.value / wide // the same part of a wider head turns
    wide = turning.max = head.value
    turning.value = 2 * Math.max(2, Math.round((part * wide) / 2))
  }
  stage.each(() => {
    if (model.value !== chosen) take()
    if (head.value !== wide) follow()
    proportional.element.hidden = turning.value === head.value
    reset.disabled = JSON.stringify(plan()) === JSON.stringify(published())
  })

  /** @type {ReturnType<typeof axes>} */ let to
  stage.canvas({
    label: () =>
      `A strip of ${wavesOf(plan()).length} pairs, of which ${late(plan())} never complete a rotation, and a map of base against distance for all models`,
    ratio: () => PLANE + 262,
    draw: (ctx, width, _height, look) => {
      const box = { left: LEFT, width: width - LEFT - 14 }
      strip(ctx, look, { ...box, ...STRIP }, plan(), published())
      const square = { left: LEFT, width: width - LEFT - 42, top: PLANE, height: 218 }
      to = plane(ctx, look, square, plan(), rows, published(), lines)
    },
    point: ({ x, y, down }) => {
      if (!down || y < PLANE - 10) return
      ;[met.value, base.value] = [to.atX(x), 10 ** to.atY(y)]
    },
    arrows: { x: met, y: base },
  })
  stage.say(() => reading(plan(), published()))
}

/** @param {Plan} plan */
const wavesOf = ({ head, turning, base, proportional }) => waves(head, turning, base, proportional && turning < head)
/** @param {Plan} plan */
const late = (plan) => unfinished(wavesOf(plan), plan.met)
/** @param {Plan} plan */
const count = (plan) => `${late(plan)} of ${wavesOf(plan).length}`

/** A bar for each pair: how much of a rotation it completes.
 * @type {(ctx: Ctx, look: Look, box: Box, plan: Plan, published: Plan) => void} */
const strip = (ctx, look, box, plan, published) => {
  const to = axes(ctx, look, box, {
    x: WAVES,
    y: [0, 1],
    logx: true,
    xticks: [10, 1e3, 1e5, 1e7],
    yticks: [0, 1],
    xformat: power,
    xlabel: "wavelength in tokens",
    ylabel: box.width > 380 ? "rotations, up to 1" : "",
  })
  const all = wavesOf(plan)
  const apart = all.length > 1 ? to.x(all[1]) - to.x(all[0]) : 8
  const thick = Math.min(6, Math.max(1, apart * 0.62))
  circle(all, plan.met).forEach((part, i) => {
    const x = to.x(all[i]) - thick / 2
    fill(ctx, look.rule, x, to.y(1), thick, box.height)
    fill(ctx, look.series[all[i] > plan.met ? 1 : 0], x, to.y(part), thick, to.y(0) - to.y(part))
  })
  const [x, foot] = [to.x(plan.met), box.top + box.height]
  stroke(ctx, [x, box.top - 6], [x, foot + 3], look.ink, 2)
  for (const wave of wavesOf(published)) {
    const tone = look.series[wave > published.met ? 1 : 0] // as it was published, to compare
    stroke(ctx, [to.x(wave), foot + 40], [to.x(wave), foot + 50], tone, 0.8)
  }
  write(ctx, look, `${published.name}, as published`, box.left + 4, foot + 62, { size: 11.5, color: look.soft })
  const round = all.length - late(plan)
  const [blue, orange] = look.letters.map((color) => ({ weight: 700, color }))
  const label = round ? `${round} complete a rotation` : ""
  write(ctx, look, label, Math.max(x - 8, box.left + 74), 10, { ...blue, align: "right" })
  write(ctx, look, `${count(plan)} do not`, Math.max(x + 8, box.left + 84), 10, orange)
}

/** Base against distance, with all models, and lines of one share.
 * @param {Ctx} ctx @param {Look} look @param {Box} box @param {Plan} plan @param {Plan[]} rows @param {Plan} published
 * @param {number[]} shares */
const plane = (ctx, look, box, plan, rows, published, shares) => {
  const [low, high] = BASES.map(Math.log10)
  const to = axes(ctx, look, box, {
    x: [LENGTHS[0], LENGTHS[1] * 1.05],
    y: [low, high + 0.05],
    logx: true,
    xticks: box.width > 330 ? [256, 1024, 4096, 16_384, 65_536] : [256, 4096, 65_536],
    yticks: [3, 4, 5, 6, 7, 8],
    yformat: (v) => power(10 ** v),
    xlabel: "longest distance in training",
    title: "base (drag the dot)",
  })
  const lengths = Array.from({ length: 60 }, (_, i) => LENGTHS[0] * (LENGTHS[1] / LENGTHS[0]) ** (i / 59))
  const small = { size: 11, color: look.soft }
  const [edge, foot] = [box.left + box.width, box.top + box.height]
  write(ctx, look, "lines: share of incomplete pairs", edge, foot - 10, { ...small, align: "right" })
  ctx.globalAlpha = plan.proportional && plan.turning < plan.head ? 0.3 : 1 // of p-RoPE they tell nothing
  for (const part of shares) {
    const bases = lengths.map((length) => Math.log10(keeping(length, part)))
    line(ctx, to, lengths, bases, look.soft, 0.7)
    const end = Math.min(2 * Math.PI * 10 ** (high * (1 - part)), LENGTHS[1])
    const y = to.y(Math.log10(keeping(end, part)))
    if (end < LENGTHS[1]) write(ctx, look, percent(part), to.x(end), y - 9, { ...small, align: "center" })
    else write(ctx, look, percent(part), to.x(end) + 6, y, small)
  }
  ctx.globalAlpha = 1
  ctx.setLineDash([5, 4])
  const ruled = lengths.map((length) => Math.log10(ntkBase(published.base, length / published.met, plan.turning)))
  line(ctx, to, lengths, ruled, look.series[2], 1.3)
  ctx.setLineDash([])
  for (const { base, met } of rows) dot(ctx, to.x(met), to.y(Math.log10(base)), look.series[0], 3)
  const [from, here] = [published, plan].map(
    ({ met, base }) => /** @type {[number, number]} */ ([to.x(met), to.y(Math.log10(base))]),
  )
  stroke(ctx, from, here, look.spark, 1.2)
  dot(ctx, ...here, look.spark, 6)
  const [x, y] = from
  const left = x > box.left + 0.55 * box.width
  const name = { size: 11.5, halo: true }
  const align = left ? "right" : "left"
  write(ctx, look, published.name, left ? x - 9 : x + 9, y + 11, { ...name, weight: 600, align })
  const rule = { ...name, color: look.letters[2], align: /** @type {const} */ ("right") }
  write(ctx, look, "NTK rule", edge - 4, Math.max(to.y(ruled[59]) + 11, box.top + 8), rule)
  return to
}

/** @param {Plan} plan @param {Plan} published */
const reading = (plan, published) => {
  const { head, turning, base, met, proportional } = plan
  const all = wavesOf(plan)
  const heads = turning < head ? `${turning} of ${head} channels rotate` : `all ${head} channels rotate`
  const how =
    turning < head
      ? proportional
        ? ", the slow pairs have frequency 0"
        : ", at the frequencies of a head so narrow"
      : ""
  const slowest = all[all.length - 1]
  const which = late(plan)
    ? `${count(plan)} pairs never complete a rotation, ${percent(late(plan) / all.length)}`
    : `all ${all.length} pairs complete a rotation`
  const same = base === published.base && met === published.met
  return `Base ${whole(base)}, distances up to ${whole(met)}; ${heads}${how}. Here ${which}. The longest wavelength is ${whole(slowest)} tokens${same ? "" : `; as published, ${count(published)} never do`}.`
}
