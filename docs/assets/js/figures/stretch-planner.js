// Choose a model, a recipe and a length, and see what it costs: frequency lost left of the trained length, angles out
// of distribution right.

import { make } from "../kit/controls.js"
import { axes, dot, faint, fill, line, short, write } from "../kit/plot.js"
import { byParts, dynamicNtk, linear, llama3, longrope, ntk, yarn } from "../math/scaling.js"
import { arcs, reach, squeeze, turns, wavelengths } from "../math/stretch.js"

/** @import { Box, Ctx, Look, Scales } from "../kit/plot.js" */
/** @import { Stage } from "../kit/stage.js" */
/** @typedef {Record<string, any> & { name: string, recipe: string, dim: number, base: number, factor: number,
 *   original_length: number, length: number, g: number[] }} Plan */
/** @typedef {{ models: Plan[], titles: Record<string, string>, takes: Record<string, string[]>,
 *   defaults: Record<string, any>, factors: [number, number], lengths: [number, number], start: string }} Data */
/** @typedef {ReturnType<typeof judge>} View */

const LEFT = 46 // pixels for the numbers at an axis
const WIDE = 560
const COMPARED = ["rope_frequencies", "linear", "ntk", "yarn", "llama3"]
const [MET, NEW, LOST, PUBLISHED] = [0, 1, 4, 5] // colors
const EVEN = 1 + 1e-9 // an overreach up to here is 1, rounded
const whole = (/** @type {number} */ v) => Math.floor(v * EVEN).toLocaleString("en")
const many = (/** @type {number} */ v) => (v < 1000 ? short(v) : whole(v))
const part = (/** @type {number} */ v) => (v > 1.0001 ? `1/${short(v, 2)}` : "1")
const price = (/** @type {number} */ v) => (v < 100 ? v.toFixed(2) : whole(v))
const power = (/** @type {number} */ v) => (v < 0 ? part(2 ** -v) : short(2 ** v))

const betas = (/** @type {Plan} */ p) => ({ ...p, fast: p.beta_fast, slow: p.beta_slow })
const searched = (/** @type {Plan} */ p) => (p.length > p.original_length ? p.long_factor : p.short_factor)

/** @type {Record<string, (plan: Plan) => import("../math/scaling.js").Stretched>} by the package's names */
const RECIPES = {
  rope_frequencies: (p) => linear(p.dim, 1, p.base),
  linear: (p) => linear(p.dim, p.factor, p.base),
  ntk: (p) => ntk(p.dim, p.factor, p.base),
  dynamic_ntk: (p) => dynamicNtk(p.dim, p.factor, p.length, p.original_length, p.base),
  by_parts: (p) => byParts(p.dim, p.factor, p.original_length, p.base, betas(p)),
  yarn: (p) => yarn(p.dim, p.factor, p.original_length, p.base, betas(p)),
  llama3: (p) =>
    llama3(p.dim, p.factor, p.original_length, p.base, { low: p.low_freq_factor, high: p.high_freq_factor }),
  longrope: (p) => longrope(p.dim, searched(p), p.factor, p.original_length, p.base),
}

/** Multipliers, rotations and angles of the pairs; overreach and squeeze. @param {Plan} plan */
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

/** @param {Stage} stage */
export default function stretchPlanner(stage) {
  const { models, titles, takes, defaults, start } = /** @type {Data} */ (stage.data)
  const { model, recipe, factor, trained, wanted, pair, near } = controls(stage)
  const preset = () => models.find(({ name }) => name === model.value) ?? models[0]
  const lists = /** @type {HTMLElement} */ (recipe.input.querySelector('[value="longrope"]'))
  const plan = (/** @type {string} */ kind) => {
    const [s, original_length, length] = [factor, trained, wanted].map(({ value }) => near(value))
    return judge({ ...defaults, ...preset(), factor: s, original_length, length, recipe: kind })
  }

  let chosen = ""
  /** @type {View} */ let view
  /** @type {Scales} */ let to
  stage.each(() => {
    const other = model.value !== chosen
    if (other) {
      const now = preset()
      if (now.long_factor) recipe.input.append(lists)
      else lists.remove()
      recipe.value = chosen ? now.recipe : start
      ;[factor.value, trained.value, wanted.value] = [now.factor, now.original_length, now.length]
      ;[chosen, pair.max] = [model.value, now.dim / 2 - 1]
    }
    view = plan(recipe.value)
    if (other) pair.value = Math.max(0, view.free.pair)
  })
  const others = () =>
    [...COMPARED, ...(view.plan.long_factor ? ["longrope"] : [])].filter((kind) => kind !== recipe.value)

  stage.canvas({
    label: () =>
      `${view.plan.name}, ${titles[recipe.value]}. Pair ${pair.value}: ${ofPair(view, pair.value).join(", ")}.`,
    ratio: (width) => (width > WIDE ? 378 : 690),
    draw: (ctx, width, _height, look) => {
      const wide = width > WIDE
      const split = wide ? Math.round(width * 0.58) : width - 8
      const upper = { left: LEFT, top: 26, width: split - LEFT, height: 186 }
      to = multipliers(ctx, look, upper, view)
      sums(ctx, look, upper, view)
      circles(ctx, look, { ...upper, top: 258, height: 60 }, view, to)
      lengths(ctx, look, to, view, 318)
      dot(ctx, to.x(view.waves[pair.value]), to.y(Math.log2(view.g[pair.value])), look.spark, 5)
      const beside = wide
        ? { left: split + 60, top: 26, width: width - split - 66, height: 150 }
        : { left: LEFT, top: 416, width: split - LEFT, height: 130 }
      prices(ctx, look, beside, [view, ...others().map(plan)], titles)
      ring(ctx, look, wide ? split + 78 : LEFT + 40, wide ? 290 : 638, view, pair.value)
    },
    point: ({ x, y }) => {
      const apart = Array.from(view.waves, (wave) => Math.abs(to.x(wave) - x))
      if (x < to.box.left + to.box.width + 10 && y < 330) pair.value = apart.indexOf(Math.min(...apart))
    },
    arrows: { x: pair },
  })
  stage.say(() => reading(view, titles[recipe.value]))
  snippet(stage, "Copy", 4.6, () => python(view.plan, takes[recipe.value]))
  snippet(stage, "Copy for config.json", 14, () => config(view.plan, takes[recipe.value]))
}

/** @param {Stage} stage */
const controls = (stage) => {
  const { models, titles, factors, lengths: ends } = /** @type {Data} */ (stage.data)
  const names = models.map(({ name }) => name)
  const marks = models.flatMap((m) => [m.factor, m.original_length, m.length])
  const near = (/** @type {number} */ v) => {
    const round = 2 ** Math.round(Math.log2(v)) // a slider near such a number means it
    return [...marks, round].find((m) => Math.abs(Math.log2(v / m)) < 0.014) ?? Number(v.toPrecision(3))
  }
  const show = (/** @type {number} */ v) => near(v).toLocaleString("en")
  const range = { min: ends[0], max: ends[1], value: ends[0], log: true, show }
  return {
    near,
    model: stage.select("model", names),
    recipe: stage.select("recipe", Object.entries(titles)),
    factor: stage.slider("factor", { min: factors[0], max: factors[1], value: 1, log: true, show }),
    trained: stage.slider("trained length", range),
    wanted: stage.slider("new length", range),
    pair: stage.slider("pair", { min: 0, max: 1, value: 0 }),
  }
}

/** @param {View} view @param {string} title */
const reading = ({ over, free, squeezed, logits, went }, title) => {
  const fresh = `No angle is out of distribution${over > EVEN ? ` up to ${whole(free.length)} tokens` : ""}.`
  const complete = went.filter((rotations) => rotations >= 1).length
  const slow = `the ${complete} pairs that completed a rotation have their frequency halved that often, on average`
  return `Recipe ${title}: overreach ${price(over)}. ${fresh} Squeeze ${price(squeezed)}: ${slow}. Logits × ${logits.toFixed(3)}.`
}

/** Lines of code, and a button that copies them.
 * @type {(stage: Stage, label: string, high: number, lines: () => string) => void} */
const snippet = (stage, label, high, lines) => {
  const style = `min-height: ${high}em; margin: 0.5rem 0 0.3rem; white-space: pre-wrap; overflow-wrap: anywhere`
  const code = stage.add(make("pre", { style }))
  const copy = stage.button(label, () =>
    navigator.clipboard.writeText(code.textContent ?? "").then(
      () => (copy.textContent = "Copied"),
      () => (getSelection()?.selectAllChildren(code), (copy.textContent = "Selected")),
    ),
  )
  stage.each(() => {
    const now = lines()
    if (now !== code.textContent) [code.textContent, copy.textContent] = [now, label]
  })
}

/** The lines that make these frequencies. @param {Plan} plan @param {string[]} takes */
const python = (plan, takes) => {
  const { base, factor, length, original_length } = plan
  /** @type {Record<string, any>} */
  const known = { ...plan.options, base, factor, length, original_length }
  const settings = takes
    .filter((name) => name in known && !Array.isArray(known[name]))
    .map((name) => `${name}=${literal(known[name])}`)
  if (plan.recipe === "longrope") settings.unshift("short_factor", "long_factor")
  return `from posenc.rotate.frequencies import ${plan.recipe}\ntheta, attention_factor = ${plan.recipe}(${[plan.dim, ...settings].join(", ")})`
}

/** The entries of a config.json that make them; "dynamic" is told one length, the trained.
 * @type {(plan: Plan, takes: string[]) => string} */
const config = (plan, takes) => {
  const { recipe, dim, base, factor, length, original_length } = plan
  const [plain, dynamic] = [/^ntk|^rope/.test(recipe), recipe === "dynamic_ntk"]
  const max_position_embeddings = dynamic ? original_length : length
  const rope_type = dynamic ? "dynamic" : plain ? "default" : recipe
  const rope_theta = recipe === "ntk" ? base * factor ** (dim / (dim - 2)) : base
  const known = dynamic ? ["factor"] : plain ? [] : takes
  const entries = known.filter((name) => name in plan.options || /factor$|^orig/.test(name))
  const names = ["max_position_embeddings", "rope_parameters", "rope_type", "rope_theta", ...entries]
  return JSON.stringify({ max_position_embeddings, rope_parameters: { ...plan, rope_type, rope_theta } }, names, 2)
    .replace(/\s+(?=[\d\]])/g, " ")
    .replace("original_length", "original_max_position_embeddings")
    .replace('"by_parts"', '"yarn",\n    "attention_factor": 1.0')
}

/** @param {number | boolean} value */
const literal = (value) => {
  if (typeof value === "boolean") return value ? "True" : "False"
  return value < 10_000 ? String(value) : value.toLocaleString("en").replaceAll(",", "_")
}

/** Whole powers of two between two powers, six at most. @param {number} low @param {number} high */
const octaves = (low, high) => {
  const step = Math.ceil((high - low) / 6)
  const first = Math.ceil(low / step) * step
  return Array.from({ length: Math.floor((high - first) / step) + 1 }, (_, n) => first + n * step)
}

/** A bar for each pair.
 * @type {(ctx: Ctx, to: Scales, view: View, sides: (i: number) => [number, number, string]) => void} */
const bars = (ctx, to, { waves }, sides) => {
  const cell = to.x(waves[1]) - to.x(waves[0])
  waves.forEach((wave, i) => {
    const [top, end, color] = sides(i)
    ctx.fillStyle = color
    if (top > end) ctx.fillRect(to.x(wave) - 0.42 * cell, to.y(top), 0.84 * cell, to.y(end) - to.y(top))
  })
}

/** The multiplier of each pair against its wavelength, and where it costs.
 * @param {Ctx} ctx @param {Look} look @param {Box} box @param {View} view */
const multipliers = (ctx, look, box, view) => {
  const { plan, g, waves, went } = view
  const floor = Math.log2(Math.min(1, plan.original_length / plan.length))
  const [logs, published] = [g, plan.g].map((values) => Array.from(values, Math.log2))
  const deep = Math.min(floor, ...logs, ...published)
  const far = 1.3 * Math.max(waves[waves.length - 1], plan.length, plan.original_length)
  const low = 1.12 * deep - 0.3
  const to = axes(ctx, look, box, {
    x: [4, far],
    y: [low, 0.3],
    logx: true,
    xticks: [],
    yticks: octaves(low, 0),
    yformat: power,
    title: box.width < 270 ? "g" : "multiplier g",
  })
  bars(ctx, to, view, (i) => (went[i] < 1 ? [logs[i], floor, look.series[NEW]] : [0, logs[i], look.series[LOST]]))
  ctx.setLineDash([4, 4])
  line(ctx, to, [4, plan.original_length, plan.original_length, far], [0, 0, floor, floor], look.soft, 1.3)
  if (Math.min(...published) < 0) {
    ctx.setLineDash([0.1, 4])
    line(ctx, to, waves, published, look.series[PUBLISHED], 2.6)
    const [x, bottom] = [box.left + 8, box.top + box.height - 9]
    write(ctx, look, "dotted: published", x, bottom, { color: look.letters[PUBLISHED], size: 11.5, halo: true })
  }
  ctx.setLineDash([])
  line(ctx, to, waves, logs, look.ink, 2)
  return to
}

/** Overreach and squeeze, over the multipliers. @param {Ctx} ctx @param {Look} look @param {Box} box @param {View} view */
const sums = (ctx, look, box, { over, squeezed }) => {
  const style = { align: /** @type {CanvasTextAlign} */ ("right"), weight: 700 }
  const right = box.left + box.width
  write(ctx, look, `▮ overreach ${price(over)}`, right, box.top - 14, { ...style, color: look.letters[NEW] })
  write(ctx, look, `▮ squeeze ${price(squeezed)}`, right - 110, box.top - 14, { ...style, color: look.letters[LOST] })
}

/** The part of its circle that each pair has met, and what is out of distribution.
 * @type {(ctx: Ctx, look: Look, box: Box, view: View, above: Scales) => void} */
const circles = (ctx, look, box, view, above) => {
  const { met, asked } = view.arcs
  const [low, high] = [above.atX(box.left), above.atX(box.left + box.width)]
  const to = axes(ctx, look, box, {
    x: [low, high],
    y: [0, 1],
    logx: true,
    xticks: box.width > 340 ? undefined : [10, 1e3, 1e5].filter((v) => v < high),
    yticks: [0, 1],
    xlabel: "wavelength of the pair, in tokens",
  })
  bars(ctx, to, view, (i) => [met[i], 0, look.series[MET]])
  bars(ctx, to, view, (i) => [asked[i], met[i], look.series[NEW]])
  const below = box.top + box.height + 48
  write(ctx, look, "▮ angles of training", box.left, below, { size: 11.5, color: look.letters[MET] })
  write(ctx, look, "▮ out of distribution", box.left + 160, below, { size: 11.5, color: look.letters[NEW] })
}

/** Both lengths, through both panels. @type {(ctx: Ctx, look: Look, to: Scales, view: View, bottom: number) => void} */
const lengths = (ctx, look, to, { plan }, bottom) => {
  const { left, top, width, height } = to.box
  const both = [plan.original_length, plan.length]
  for (const length of both) fill(ctx, look.ink, to.x(length) - 0.6, top, 1.2, bottom - top)
  both.forEach((length, row) => {
    const label = `${row ? "new" : "trained"} ${whole(length)}`
    ctx.font = look.font(12)
    const half = ctx.measureText(label).width / 2
    const x = Math.min(Math.max(to.x(length), left + half), left + width - half)
    const y = top + height + 12 + 17 * row
    ctx.clearRect(x - half - 2, y - 8, 2 * half + 4, 16) // the label stand in a gap of the lines
    write(ctx, look, label, x, y, { align: "center" })
  })
}

/** Squeeze against overreach of every recipe with these settings.
 * @param {Ctx} ctx @param {Look} look @param {Box} box @param {View[]} views the first is the reader's
 * @param {Record<string, string>} titles */
const prices = (ctx, look, box, views, titles) => {
  const overs = views.map(({ over }) => Math.log2(over))
  const high = 1.15 * Math.max(0, ...overs) + 0.6
  const low = Math.max(-8, Math.min(-1, ...overs) - 0.9)
  const far = Math.max(1, ...views.map(({ squeezed }) => squeezed)) * 1.12
  const to = axes(ctx, look, box, {
    x: [0, far],
    y: [low, high],
    xticks: [0, Math.floor(far)],
    yticks: octaves(low, high),
    yformat: power,
    xlabel: "squeeze",
    title: "overreach",
  })
  faint(ctx, 0.14, () => fill(ctx, look.series[2], box.left, to.y(0), box.width, box.top + box.height - to.y(0)))
  const bottom = box.top + box.height
  write(ctx, look, "▮ none out of distribution", box.left + box.width, box.top - 14, {
    align: "right",
    color: look.letters[2],
  })
  /** @type {Array<[number, number]>} */ const named = []
  views.forEach(({ plan, squeezed }, i) => {
    const [x, y] = [to.x(squeezed), Math.min(to.y(overs[i]), bottom - 3)]
    const side = x < box.left + box.width * 0.6 ? 1 : -1
    const level = Math.min(y + (plan.recipe === "yarn" ? 10 : -9), bottom - 9)
    dot(ctx, x, y, i ? look.soft : look.spark, i ? 3 : 5)
    if (named.some(([a, b]) => Math.abs(a - x) < 45 && Math.abs(b - level) < 12)) return
    const style = { align: /** @type {CanvasTextAlign} */ (side > 0 ? "left" : "right"), size: 11.5, halo: true }
    write(ctx, look, titles[plan.recipe], x + 8 * side, level, { ...style, weight: i ? 400 : 700 })
    named.push([x, level])
  })
}

/** One pair in numbers. @param {View} view @param {number} i */
const ofPair = ({ g, waves, went, goes }, i) => [
  `wavelength ${many(waves[i])} tokens`,
  `trained: ${many(went[i])} rotations`,
  `new: ${many(goes[i])} rotations`,
  `frequency × ${part(1 / g[i])}`,
]

/** The circle of one pair. @type {(ctx: Ctx, look: Look, x: number, y: number, view: View, i: number) => void} */
const ring = (ctx, look, x, y, view, i) => {
  const { met, asked } = view.arcs
  const arc = (/** @type {number} */ share, /** @type {string} */ color) => {
    ctx.beginPath()
    ctx.arc(x, y, 36, -Math.PI / 2, (2 * share - 0.5) * Math.PI)
    ctx.strokeStyle = color
    ctx.stroke()
  }
  ctx.lineCap = "butt"
  ctx.lineWidth = 10
  arc(1, look.rule)
  arc(asked[i], look.series[NEW])
  arc(met[i], look.series[MET])
  write(ctx, look, `pair ${i}`, x, y, { align: "center", weight: 700 })
  const inks = [look.ink, look.letters[MET], look.letters[NEW], look.letters[LOST]]
  ofPair(view, i).forEach((text, k) => write(ctx, look, text, x + 54, y - 27 + 18 * k, { color: inks[k] }))
}
