// What training writes into a table, step by step: cosines of its rows, attention weights, the first component.

import { heat } from "../kit/heat.js"
import { axes, line, percent } from "../kit/plot.js"

/** @typedef {{ step: number, near: number, share: number, right: number, maps: string, profile: string }} Frame */
/** @typedef {{ task: string, frames: Frame[] }} Film */

const NARROW = 560

/** @param {import("../kit/stage.js").Stage} stage */
export default function tableFilm(stage) {
  /** @type {{ levels: string, seen: number, films: Film[] }} */
  const { levels, seen, films } = stage.data
  const [, copying] = films
  const last = copying.frames.length - 1
  const peak = copying.frames.reduce((best, { near }, i, all) => (near > all[best].near ? i : best), 0)
  const film = () => films.find((item) => item.task === task.value) ?? copying
  const frame = () => film().frames[Math.floor(time.value)]
  const read = (/** @type {string} */ letters, /** @type {number} */ low) =>
    Float64Array.from(letters, (letter) => low + ((1 - low) * levels.indexOf(letter)) / (levels.length - 1))

  stage.predict(
    `The copier starts from noise. In the end, neighboring rows have a mean cosine of ${copying.frames[last].near.toFixed(2)}. And on the way?`,
    ["always less", "much more, for a while", "more, right from the start"],
    (answer) => {
      task.value = copying.task
      time.value = peak
      const { step, near } = copying.frames[peak]
      return `${answer.startsWith("much") ? "Yes:" : "Look:"} at step ${step} it is ${near.toFixed(2)}. First the rows change smoothly, then exact offsets outgrow that.`
    },
  )
  const tasks = films.map(({ task }) => task)
  const task = stage.choice("task", tasks, copying.task)
  const show = (/** @type {number} */ i) => String(film().frames[Math.floor(i)].step)
  const time = stage.film("training step", { min: 0, max: last, value: 0, rate: 1.5, show })
  let before = task.value
  stage.each(() => {
    if (before !== task.value) time.value = Math.floor(time.value) // the same frame of another film: another step
    before = task.value
  })

  stage.canvas({
    label: () =>
      `Cosines of the first ${seen} rows, attention weights of those queries, and the first component. ${reading()}`,
    ratio: (width) => (width < NARROW ? width / 2 + 190 : width / 3 + 28),
    draw: (ctx, width, height, look) => {
      const narrow = width < NARROW
      const side = (narrow ? (width - 60) / 2 : (width - 90) / 3) - 4
      const maps = read(frame().maps, 0)
      const above = (/** @type {number} */ i) => i % seen > Math.floor(i / seen)
      const mirrored = (/** @type {number} */ i) => (i % seen) * seen + Math.floor(i / seen)
      const alike = maps.map((_, i) => (i % (seen + 1) ? 2 * maps[above(i) ? i : mirrored(i)] - 1 : 1))
      const looks = maps.map((value, i) => (above(i) ? NaN : value))
      const ends = [0, seen - 1]
      const frameOf = (/** @type {string} */ title, /** @type {string} */ xlabel) => ({
        x: [-0.5, seen - 0.5],
        y: [seen - 0.5, -0.5],
        xticks: ends,
        yticks: ends,
        title,
        xlabel,
      })
      const left = { left: 26, top: 24, width: side, height: side }
      const right = { ...left, left: 26 + side + 32 }
      heat(ctx, left, alike, seen, { low: -1, high: 1 })
      axes(ctx, look, left, frameOf("Cosines of rows", "row"))
      heat(ctx, right, looks, seen, { map: "viridis", low: 0, high: 1 })
      axes(ctx, look, right, frameOf("Attention (√weights)", "key"))

      const profile = read(frame().profile, -1)
      const chart = narrow
        ? { left: 26, top: side + 96, width: 2 * side + 32, height: height - side - 136 }
        : { ...right, left: right.left + side + 28 }
      const end = profile.length - 1
      const titled = { title: "First component", xlabel: "position", xticks: [0, end], yticks: [] }
      const to = axes(ctx, look, chart, { x: [0, end], y: [-1.05, 1.05], ...titled })
      line(ctx, to, Array.from(profile.keys()), profile, look.series[tasks.indexOf(task.value)], 2)
    },
    arrows: { x: time },
  })
  const reading = () => {
    const { step, near, share, right } = frame()
    return `${film().task[0].toUpperCase()}${film().task.slice(1)}, step ${step}: right ${percent(right)} of the time. Neighbors have a mean cosine of ${near.toFixed(2)}; the first component holds ${percent(share)} of the table.`
  }
  stage.say(reading)
}
