// What a reader can do beside turning knobs: compare, play, take a model, copy the link, walk through the tour.

import { make, press } from "../kit/controls.js"
import { KINDS } from "./kinds.js"
import { most } from "./controls.js"
import { toQuery } from "./query.js"
import { KNOBS } from "./settings.js"
import { defaults, rounded, settle } from "./defaults.js"

/** @import { Stage } from "../kit/stage.js" */
/** @import { Layout } from "./layout.js" */
/** @import { App } from "./state.js" */
/** @import { PageData, State } from "./types.js" */

const SWEEP = 9000 // milliseconds from one end of a knob to the other
const STEPS = 24 // of a sweep for those who want no motion, one a second
const PLAYED = ["base", "first", "factor", "peak", "head", "width"] // where nothing fit to be played is in use

/** @type {(stage: Stage, data: PageData, app: App, home: Layout,
 *   board: { shows: (name: string) => boolean, current: () => string }) => void} */
export const addActions = (stage, data, app, { kinds, guided, whose }, board) => {
  const { signal } = stage
  models(stage, data, app, kinds)
  const reset = () => app.change(defaults(data, app.set().encoding, !app.state.words), "reset", false)
  const compare = press(signal, "Compare", app.compare)
  const sides = /** @type {const} */ (["A", "B"]).map((side) => press(signal, side, () => app.turn(side)))
  whose.append(...sides)
  stage.each(() => {
    const two = app.other
    const text = two ? "Stop comparing" : "Compare"
    if (compare.textContent !== text) compare.textContent = text
    compare.setAttribute("aria-pressed", String(Boolean(two)))
    whose.hidden = !two
    for (const [i, state] of [app.state, two].entries()) {
      const label = state ? `${"AB"[i]} ${KINDS[state.encoding].name}` : ""
      if (sides[i].textContent !== label) sides[i].textContent = label
      sides[i].setAttribute("aria-pressed", String(app.side === "AB"[i]))
    }
  })
  const walk = async () => {
    const { tour } = await import("./tour.js")
    const go = (/** @type {State} */ step) => {
      if (app.other) app.compare()
      app.change({ ...defaults(data, step.encoding, step.words === ""), ...step }, "tour", false)
    }
    tour(signal, guided, data.tour, { go, done: () => start.focus() })
  }
  const start = press(signal, "Take the tour", walk)
  const play = player(stage, data, app, board)
  const buttons = [compare, play, link(stage, app), start, press(signal, "Reset", reset)]
  kinds.append(make("div", { class: "explorer-acts" }, buttons))
}

/** Published models. @param {Stage} stage @param {PageData} data @param {App} app @param {HTMLElement} kinds */
const models = (stage, data, app, kinds) => {
  const names = data.models.map(([name]) => /** @type {[string, string]} */ ([name, name]))
  stage.bar = kinds
  const list = stage.select("settings of", [["", "your own"], ...names], "")
  stage.bar = null
  list.element.classList.add("explorer-models")
  list.element.title = "The settings of a published model"
  const states = new Map(data.models.map(([name, , set]) => [name, { ...defaults(data, set.encoding, true), ...set }]))
  const take = () => {
    const state = states.get(list.value)
    if (state) app.change(state, "model", false)
  }
  list.element.addEventListener("change", take, { signal: stage.signal })
  const fits = (/** @type {string} */ name) => {
    const [state, now] = [states.get(name), app.set()]
    if (!state || state.encoding !== now.encoding) return false
    const own = KNOBS.filter((knob) => KINDS[now.encoding].knobs.includes(knob.name) && knob.when(now))
    return own.every(
      (knob) => ["first", "seed", "content"].includes(knob.name) || settle(state, data)[knob.name] === now[knob.name],
    )
  }
  const same = (/** @type {State} */ state) => toQuery(settle(state, data), data) === toQuery(app.state, data)
  // of an address
  if (app.state.far) list.value = data.models.map(([name]) => name).find((name) => same(states.get(name) ?? {})) ?? ""
  stage.each(() => {
    if (list.value && !fits(list.value)) list.value = ""
    const chosen = data.models.find(([name]) => name === list.value)
    if (chosen && !app.notice) app.notice = `${chosen[0]}: ${chosen[1]}.`
    else if (!chosen && data.models.some(([name]) => app.notice.startsWith(`${name}: `))) app.notice = ""
  })
}

/** Sweep the knob in use from end to end, until a hand moves something.
 * @type {(stage: Stage, data: PageData, app: App, board: { shows: (name: string) => boolean, current: () => string })
 *   => HTMLButtonElement} */
const player = (stage, data, app, { shows, current }) => {
  const still = matchMedia("(prefers-reduced-motion: reduce)")
  const playable = () =>
    [current(), ...PLAYED]
      .map((name) => KNOBS.find((knob) => knob.name === name))
      .find((knob) => knob && ["integer", "log", "share"].includes(knob.kind) && shows(knob.name))
  let [playing, last, part, stateBefore] = ["", 0, 0, ""]
  const stop = () => void (playing = "")
  const turn = (/** @type {number} */ now) => {
    const knob = KNOBS.find(({ name }) => name === playing)
    if (!knob || stage.signal.aborted) return
    if (document.hidden || !shows(playing) || (stateBefore && JSON.stringify(app.set()) !== stateBefore))
      return (stop(), stage.changed())
    const gone = now - last
    if (!still.matches || gone > 1000) {
      part = (part + (still.matches ? 1 / STEPS : gone / SWEEP)) % 1
      last = now
      const bounds = { ...data.knobs[playing], max: most(knob, app.set(), data) }
      const { min, max } = bounds
      const value = rounded(knob, knob.kind === "log" ? min * (max / min) ** part : min + (max - min) * part, bounds)
      if (value !== app.set()[playing]) app.change({ [playing]: value }, playing, true)
      stateBefore = JSON.stringify(app.set())
    }
    requestAnimationFrame(turn)
  }
  const begin = () => {
    const knob = playable()
    if (playing || !knob) return (stop(), stage.changed())
    playing = knob.name
    const { min } = data.knobs[playing]
    const [value, max] = [app.set()[playing], most(knob, app.set(), data)]
    part = knob.kind === "log" ? Math.log(value / min) / Math.log(max / min) : (value - min) / (max - min || 1)
    ;[last, stateBefore] = [performance.now(), ""]
    stage.changed()
    requestAnimationFrame(turn)
  }
  const button = press(stage.signal, "Play", begin)
  stage.each(() => {
    const knob = playable()
    button.disabled = !playing && !knob
    const text = playing ? "Pause" : `Play ${knob?.label.replace(/ \(.*/, "") ?? ""}`
    if (button.textContent !== text) button.textContent = text
  })
  return button
}

/** @param {Stage} stage @param {App} app */
const link = (stage, app) => {
  let copied = ""
  const copy = () =>
    navigator.clipboard.writeText(location.origin + location.pathname + app.query()).then(
      () => ((copied = app.query()), (button.textContent = "Copied")),
      () => (button.textContent = "It is in the address bar"),
    )
  const button = press(stage.signal, "Copy link", copy)
  stage.each(() => {
    if (button.textContent !== "Copy link" && copied !== app.query()) button.textContent = "Copy link"
  })
  return button
}
