// A control for each knob, shown where it applies.

import { short } from "../kit/plot.js"
import { columnsOf, KNOBS, rounded } from "./spec.js"
import { NAMES } from "./words.js"

/** @import { Stage } from "../kit/stage.js" */
/** @import { State, Given, Knob } from "./types.js" */

const FEW = 3 // choices that stand side by side

/** @param {Knob} knob @param {State} s @param {Given} given */
const most = ({ name }, s, given) => {
  if (["query", "key", "peak"].includes(name)) return s.length - 1
  if (name === "channel") return columnsOf(s) - 1
  if (name === "head") return s.heads - 1
  if (name === "length" && s.encoding === "learned" && s.table === "trained") return given.trained.length
  return given.knobs[name]?.max
}

/** @param {string} text */
const named = (text) => NAMES[text] ?? text

/**
 * @typedef {object} Board
 * @property {() => State} now
 * @property {(name: string, value: any, moves: boolean) => void} set
 * @property {(name: string) => boolean} offers
 * @property {(name: string) => HTMLElement} home where each knob stands
 */

/** @param {Stage} stage @param {Given} given @param {Board} board */
export const knobs = (stage, given, { now, set, offers, home }) => {
  const mounted = KNOBS.map((knob) => {
    const { name, kind } = knob
    stage.bar = home(name)
    const control = made(stage, knob, given, now)
    const input = control.element
    const chosen = () => set(name, control.value, false)
    const turned = () => {
      const bounds = { ...given.knobs[name], max: most(knob, now(), given) }
      const value = rounded(knob, /** @type {number} */ (control.value), bounds)
      control.value = /** @type {never} */ (value)
      set(name, value, true)
    }
    const slides = kind !== "choice" && kind !== "toggle"
    input.addEventListener(slides ? "input" : "change", slides ? turned : chosen, { signal: stage.signal })
    input.dataset.knob = name
    return { knob, control }
  })
  stage.bar = null
  /** @param {State} s */
  const sync = (s) => {
    for (const { knob, control } of mounted) {
      const { name } = knob
      control.element.hidden = !knob.when(s) || !offers(name)
      if ("max" in control) {
        const bound = most(knob, s, given)
        if (control.max !== bound) control.max = bound
      }
      if (control.value !== s[name]) control.value = /** @type {never} */ (s[name])
      if (name === "content") {
        for (const option of control.element.querySelectorAll("option"))
          option.hidden = option.disabled = option.value === "peak" && s.encoding !== "rope"
      }
    }
  }
  return sync
}

/** @param {Stage} stage @param {Knob} knob @param {Given} given @param {() => State} now */
const made = (stage, { name, label, kind, step = 1 }, given, now) => {
  if (kind === "toggle") return stage.toggle(label, given.toggles[name])
  if (kind === "choice") {
    const options = given.choices[name].map((key) => /** @type {[string, string]} */ ([key, named(key)]))
    return name === "encoding" || options.length <= FEW
      ? stage.choice(label, options)
      : stage.select(label, options, options[0][0])
  }
  const { min, max, value } = given.knobs[name]
  const moved = ["query", "key"].includes(name)
  const show = (/** @type {number} */ v) => (moved ? short(v + now().first) : short(v))
  return kind === "log"
    ? stage.slider(label, { min, max, value, log: true, show })
    : stage.slider(label, { min, max, value, step: kind === "share" ? 0.01 : step, show })
}
