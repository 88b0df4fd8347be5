// Choose a model, a recipe and a length, and see both prices: steps lost left of the trained length, new angles right.

import { make } from "../kit/controls.js"
import { axes, dot, line, short, write } from "../kit/plot.js"
import { byParts, dynamicNtk, linear, llama3, longrope, ntk, yarn } from "../math/scaling.js"
import { arcs, reach, squeeze, turns, wavelengths } from "../math/stretch.js"

/** @typedef {import("../kit/paper.js").Look} Look */
/** @typedef {import("../kit/plot.js").Box} Box */
/** @typedef {Record<string, any> & { dim: number, base: number, original_length: number, length: number, factor: number, recipe: string, name: string, g: number[] }} Plan */
/** @typedef {ReturnType<typeof judge>} View */

const betas = (/** @type {Plan} */ p) => ({ fast: p.beta_fast, slow: p.beta_slow, truncate: p.truncate })
const searched = (/** @type {Plan} */ p) => (p.length > p.original_length ? p.long_factor : p.short_factor)
/** @type {Record<string, (plan: Plan) => import("../math/scaling.js").Stretched>} */
const RECIPES = {
  rope_frequencies: (p) => linear(p.dim, 1, p.base),
  linear: (p) => linear(p.dim, p.factor, p.base),
  ntk: (p) => ntk(p.dim, p.factor, p.base),
  dynamic_ntk: (p) => dynamicNtk(p.dim, p.factor, p.length, p.original_length, p.base),
  by_parts: (p) => byParts(p.dim, p.factor, p.original_length, p.base, betas(p)),
  yarn: (p) => yarn(p.dim, p.factor, p.original_length, p.base, { ...betas(p), attention: p.attention }),
  llama3: (p) =>
    llama3(p.dim, p.factor, p.original_length, p.base, { low: p.low_freq_factor, high: p.high_freq_factor }),
  longrope: (p) => longrope(p.dim, searched(p), p.factor, p.original_length, p.base),
}
const LEFT = 46 // pixels for the numbers at an axis
const EVEN = 1 + 1e-9 // an overreach up to here is 1, rounded
const whole = (/** @type {number} */ v) => Math.floor(v * EVEN).toLocaleString("en")
const many = (/** @type {number} */ v) => (v < 1000 ? short(v) : whole(v))
const part = (/** @type {number} */ v) => (v > 1.0001 ? `1/${short(v, 2)}` : "1")

/** What a plan does to each pair, and its two prices. @param {Plan} plan */
const judge = (plan) => {
  const plain = RECIPES.rope_frequencies(plan).theta
  const { theta, attention } = RECIPES[plan.recipe](plan)
  const free = reach(theta, plain, plan.original_length)
  return {
    plan,
    free,
    g: theta.map((t, i) => t / plain[i]),
    waves: wavelengths(plain),
    went: turns(plain, plan.original_length),
    goes: turns(theta, plan.length),
    arcs: arcs(theta, plan.length, plain, plan.original_length),
    over: plan.length / free.length,
    squeezed: squeeze(theta, plain, plan.original_length),
    logits: attention ** 2,
  }
}

/** The multiplier of each pair against its wavelength, and where it costs. @param {CanvasRenderingContext2D} ctx @param {Look} look @param {Box} box @param {View} view */
const multipliers = (ctx, look, box, { plan, g, waves, went, over, squeezed }) => {
  const floor = Math.min(1, plan.original_length / plan.length)
  const deep = Math.log2(Math.min(floor, ...g, ...plan.g))
  const ends = /** @type {[number, number]} */ ([4, Math.max(waves[waves.length - 1], plan.length) * 1.3])
  const [yticks, yformat] = [[0, 1, 2, 3, 4, 5, 6, 7].map((v) => -v), (/** @type {number} */ v) => part(2 ** -v)]
  const shown = yticks.filter((v) => v >= deep - 0.3)
  const to = axes(ctx, look, box, {
    x: ends,
    y: [deep - 0.6, 0.3],
    logx: true,
    xticks: [],
    yticks: shown,
    yformat,
    title: "multiplier g",
  })
  const cell = to.x(waves[1]) - to.x(waves[0])
  const logs = Array.from(g, Math.log2)
  waves.forEach((wave, i) => {
    const [top, end] = went[i] < 1 ? [logs[i], Math.log2(floor)] : [0, logs[i]]
    ctx.fillStyle = look.series[went[i] < 1 ? 1 : 4]
    if (top > end) ctx.fillRect(to.x(wave) - 0.42 * cell, to.y(top), 0.84 * cell, to.y(end) - to.y(top))
  })
  ctx.setLineDash([4, 4])
  const steps = [ends[0], plan.original_length, plan.original_length, ends[1]]
  line(ctx, to, steps, [0, 0, Math.log2(floor), Math.log2(floor)], look.soft, 1.3)
  if (Math.min(...plan.g) < 1) {
    line(ctx, to, waves, plan.g.map(Math.log2), look.series[5], 2)
    write(ctx, look, "╌ published", box.left + box.width, box.top + box.height - 8, {
      align: "right",
      color: look.letters[5],
      size: 11.5,
    })
  }
  ctx.setLineDash([])
  line(ctx, to, waves, logs, look.ink, 2)
  const sums = /** @type {Array<[string, number]>} */ ([
    [`▮ overreach ${over.toFixed(2)}`, 1],
    [`▮ squeeze ${squeezed.toFixed(2)}`, 4],
  ])
  ctx.font = look.font(12.5, 700)
  let right = box.left + box.width
  for (const [words, i] of sums) {
    write(ctx, look, words, right, box.top - 14, { align: "right", color: look.letters[i], size: 12.5, weight: 700 })
    right -= ctx.measureText(words).width + 12
  }
  return to
}

/** The part of its circle that each pair has met, and what is new. @param {CanvasRenderingContext2D} ctx @param {Look} look @param {Box} box @param {View} view @param {import("../kit/plot.js").Scales} above */
const circles = (ctx, look, box, { waves, arcs: { met, asked } }, above) => {
  const [low, high] = [above.atX(box.left), above.atX(box.left + box.width)]
  const ticks = [10, 100, 1e3, 1e4, 1e5, 1e6].filter((v) => v < high && (box.width > 340 || Math.log10(v) % 2))
  const xlabel = "wavelength of the pair, in tokens"
  const to = axes(ctx, look, box, { x: [low, high], y: [0, 1], logx: true, xticks: ticks, yticks: [0, 1], xlabel })
  const cell = to.x(waves[1]) - to.x(waves[0])
  waves.forEach((wave, i) => {
    ctx.fillStyle = look.series[0]
    ctx.fillRect(to.x(wave) - 0.42 * cell, to.y(met[i]), 0.84 * cell, to.y(0) - to.y(met[i]))
    ctx.fillStyle = look.series[1]
    ctx.fillRect(to.x(wave) - 0.42 * cell, to.y(asked[i]), 0.84 * cell, to.y(met[i]) - to.y(asked[i]))
  })
}

/** Both lengths, through both panels. @param {CanvasRenderingContext2D} ctx @param {Look} look @param {import("../kit/plot.js").Scales} to @param {Plan} plan @param {number} bottom */
const lengthsAt = (ctx, look, to, plan, bottom) => {
  const { left, top, width, height } = to.box
  const words = [`trained ${whole(plan.original_length)}`, `asked ${whole(plan.length)}`]
  const pulls = plan.length < plan.original_length ? [1, -1] : [-1, 1]
  ;[plan.original_length, plan.length].forEach((length, k) => {
    const x = to.x(length)
    ctx.fillStyle = look.ink
    ctx.fillRect(x - 0.6, top, 1.2, bottom - top)
    ctx.font = look.font(12)
    const room = ctx.measureText(words[k]).width
    const start = pulls[k] > 0 ? Math.min(x + 5, left + width + 8 - room) : Math.max(x - 5 - room, left)
    write(ctx, look, words[k], start, top + height + 12 + 16 * k, { halo: true })
  })
}

/** Squeeze against overreach of every recipe with these settings. @param {CanvasRenderingContext2D} ctx @param {Look} look @param {Box} box @param {View[]} views @param {View} now @param {Record<string, string>} titles */
const prices = (ctx, look, box, views, now, titles) => {
  const tall = Math.max(1.3, Math.log2(now.plan.length / now.plan.original_length) + 0.5)
  const far = Math.max(1, ...[now, ...views].map(({ squeezed }) => squeezed)) * 1.12
  const yformat = (/** @type {number} */ v) => (v < 0 ? part(2 ** -v) : short(2 ** v))
  const to = axes(ctx, look, box, {
    x: [0, far],
    y: [-1.6, tall],
    xticks: [0, Math.floor(far)],
    yticks: [-1, 0, 1, 2, 3, 4, 5, 6, 7, 8].filter((v) => v < tall && (tall < 5 || v % 2 === 0)),
    yformat,
    xlabel: "squeeze",
    title: "overreach",
  })
  ctx.globalAlpha = 0.14
  ctx.fillStyle = look.series[2]
  ctx.fillRect(box.left, to.y(0), box.width, box.top + box.height - to.y(0))
  ctx.globalAlpha = 1
  write(ctx, look, "no new angle", box.left + box.width - 4, box.top + box.height - 10, {
    align: "right",
    color: look.letters[2],
  })
  /** @type {Array<[number, number]>} */ const named = []
  for (const { plan, squeezed, over } of [now, ...views.filter(({ plan }) => plan.recipe !== now.plan.recipe)]) {
    const mine = plan.recipe === now.plan.recipe
    const [x, y] = [to.x(squeezed), Math.min(to.y(Math.log2(over)), box.top + box.height - 3)]
    const side = x < box.left + box.width * 0.6 ? 1 : -1
    const below = y + (plan.recipe === "yarn" ? 10 : -9)
    dot(ctx, x, y, mine ? look.spark : look.soft, mine ? 5 : 3)
    if (named.some(([a, b]) => Math.abs(a - x) < 45 && Math.abs(b - below) < 12)) continue
    const style = { align: /** @type {CanvasTextAlign} */ (side > 0 ? "left" : "right"), size: 11.5, halo: true }
    write(ctx, look, titles[plan.recipe], x + 8 * side, below, { ...style, weight: mine ? 700 : 400 })
    named.push([x, below])
  }
}

/** One pair in numbers. @param {View} view @param {number} i */
const ofPair = ({ g, waves, went, goes }, i) => [
  `a turn in ${many(waves[i])} tokens`,
  `trained: ${many(went[i])} turns`,
  `asked: ${many(goes[i])} turns`,
  `steps × ${part(1 / g[i])}`,
]

/** The circle of one pair. @param {CanvasRenderingContext2D} ctx @param {Look} look @param {number} x @param {number} y @param {View} view @param {number} i */
const ring = (ctx, look, x, y, view, i) => {
  const { met, asked } = view.arcs
  const shares = /** @type {Array<[number, string]>} */ ([
    [1, look.rule],
    [asked[i], look.series[1]],
    [met[i], look.series[0]],
  ])
  ctx.lineCap = "butt"
  ctx.lineWidth = 10
  for (const [share, color] of shares) {
    ctx.beginPath()
    ctx.arc(x, y, 36, -Math.PI / 2, (2 * share - 0.5) * Math.PI)
    ctx.strokeStyle = color
    ctx.stroke()
  }
  write(ctx, look, `pair ${i}`, x, y, { align: "center", weight: 700 })
  const inks = [look.ink, look.letters[0], look.letters[1], look.letters[4]]
  ofPair(view, i).forEach((words, k) => write(ctx, look, words, x + 54, y - 27 + 18 * k, { color: inks[k] }))
}

/** @param {import("../kit/stage.js").Stage} stage */
export default function stretchPlanner(stage) {
  /** @type {{ models: Plan[], titles: Record<string, string>, takes: Record<string, string[]>, defaults: Record<string, any>, factors: [number, number], lengths: [number, number], start: string }} */
  const { models, titles, takes, defaults, factors, lengths, start } = stage.data
  const marks = models.flatMap((m) => [m.factor, m.original_length, m.length])
  const near = (/** @type {number} */ v) => {
    const round = 2 ** Math.round(Math.log2(v)) // a hand that comes near such a number means it
    return [...marks, round].find((m) => Math.abs(Math.log2(v / m)) < 0.014) ?? Number(v.toPrecision(3))
  }
  const show = (/** @type {number} */ v) => near(v).toLocaleString("en")
  const names = models.map(({ name }, i) => /** @type {[string, string]} */ ([String(i), name]))
  const model = stage.select("model", names)
  const recipe = stage.select("recipe", Object.entries(titles))
  const factor = stage.slider("factor", { min: factors[0], max: factors[1], value: 1, log: true, show })
  const range = { min: lengths[0], max: lengths[1], value: lengths[0], log: true, show }
  const trained = stage.slider("trained length", range)
  const wanted = stage.slider("new length", range)
  const pair = stage.slider("pair", { min: 0, max: 1, value: 0 })
  const lists = /** @type {HTMLElement} */ (recipe.input.querySelector('[value="longrope"]'))

  let chosen = ""
  /** @type {View} */ let view
  /** @type {import("../kit/plot.js").Scales} */ let to
  const plan = (/** @type {string} */ kind) => {
    const turned = { factor: near(factor.value), original_length: near(trained.value), length: near(wanted.value) }
    return judge({ ...defaults, ...models[Number(model.value)], ...turned, recipe: kind })
  }
  stage.each(() => {
    const other = model.value !== chosen
    if (other) {
      const now = models[Number(model.value)]
      if (now.long_factor) recipe.input.append(lists)
      else lists.remove()
      recipe.value = chosen ? now.recipe : start
      ;[factor.value, trained.value, wanted.value] = [now.factor, now.original_length, now.length]
      ;[chosen, pair.max] = [model.value, now.dim / 2 - 1]
    }
    view = plan(recipe.value)
    if (other) pair.value = Math.max(0, view.free.pair)
  })

  const wide = (/** @type {number} */ width) => width > 560
  stage.canvas({
    label: () =>
      `${view.plan.name}, ${titles[recipe.value]}. Pair ${pair.value}: ${ofPair(view, pair.value).join(", ")}.`,
    ratio: (width) => (wide(width) ? 366 : 670),
    draw: (ctx, width, _height, look) => {
      const split = wide(width) ? Math.round(width * 0.58) : width - 8
      const box = { left: LEFT, top: 26, width: split - LEFT, height: 186 }
      to = multipliers(ctx, look, box, view)
      circles(ctx, look, { ...box, top: 256, height: 60 }, view, to)
      lengthsAt(ctx, look, to, view.plan, 316)
      const [x, y] = [to.x(view.waves[pair.value]), to.y(Math.log2(view.g[pair.value]))]
      dot(ctx, x, y, look.spark, 5)
      const kinds = [
        "rope_frequencies",
        "linear",
        "ntk",
        "yarn",
        "llama3",
        ...(view.plan.long_factor ? ["longrope"] : []),
      ]
      const place = wide(width)
        ? { left: split + 60, top: 26, width: width - split - 66, height: 150 }
        : { left: LEFT, top: 396, width: split - LEFT, height: 130 }
      prices(ctx, look, place, kinds.map(plan), view, titles)
      const [ringX, ringY] = wide(width) ? [split + 78, 290] : [LEFT + 40, 616]
      ring(ctx, look, ringX, ringY, view, pair.value)
    },
    point: ({ x }) => {
      const apart = Array.from(view.waves, (wave) => Math.abs(to.x(wave) - x))
      if (x < to.box.left + to.box.width + 10) pair.value = apart.indexOf(Math.min(...apart))
    },
    arrows: { x: pair },
  })
  stage.say(() => {
    const { over, free, squeezed, logits, went } = view
    const fresh =
      over > EVEN ? `With these frequencies no angle is new up to ${whole(free.length)} tokens.` : "No angle is new."
    const round = went.filter((turned) => turned >= 1).length
    const slow = `Squeeze ${squeezed.toFixed(2)}: the ${round} pairs that went round have their step halved that often, on average.`
    const name = titles[recipe.value].replace(/^./, (letter) => letter.toUpperCase())
    return `${name}: overreach ${over.toFixed(2)}. ${fresh} ${slow} Logits × ${logits.toFixed(3)}.`
  })

  const code = stage.add(
    make("pre", { style: "white-space: pre-wrap; margin: 0.5rem 0 0.3rem; overflow-wrap: anywhere" }),
  )
  const copy = stage.button("Copy", () =>
    navigator.clipboard.writeText(code.textContent ?? "").then(
      () => (copy.textContent = "Copied"),
      () => (getSelection()?.selectAllChildren(code), (copy.textContent = "Selected")),
    ),
  )
  stage.each(() => {
    const now = python(view.plan, takes[recipe.value])
    if (now !== code.textContent) [code.textContent, copy.textContent] = [now, "Copy"]
  })
}

/** The lines that make these frequencies. @param {Plan} plan @param {string[]} takes */
const python = (plan, takes) => {
  const known = {
    ...plan.options,
    base: plan.base,
    factor: plan.factor,
    length: plan.length,
    original_length: plan.original_length,
  }
  const given = takes
    .filter((name) => name in known && !Array.isArray(known[name]))
    .map((name) => `${name}=${written(known[name])}`)
  if (plan.recipe === "longrope") given.unshift("short_factor", "long_factor")
  return `from posenc.rotate.frequencies import ${plan.recipe}\ntheta, attention_factor = ${plan.recipe}(${[plan.dim, ...given].join(", ")})`
}

/** @param {number | boolean} value */
const written = (value) => {
  if (typeof value === "boolean") return value ? "True" : "False"
  return value < 10_000 ? String(value) : value.toLocaleString("en").replaceAll(",", "_")
}
