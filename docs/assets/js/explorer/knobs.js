// A control for each knob, shown where it applies.

import { short } from "../kit/plot.js"
import { columnsOf, KNOBS, rounded } from "./spec.js"
import { NAMES } from "./words.js"

/** @typedef {import("../kit/stage.js").Stage} Stage */
/** @typedef {import("./types.js").State} State */
/** @typedef {import("./types.js").Given} Given */
/** @typedef {import("./types.js").Knob} Knob */

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
 * @param {Stage} stage @param {Given} given @param {() => State} now
 * @param {(name: string, value: any, moves: boolean) => void} set
 * @param {(name: string) => HTMLElement} home where each stands
 */
export const knobs = (stage, given, now, set, home) => {
  const mounted = KNOBS.map((knob) => {
    const { name, kind } = knob
    stage.bar = home(name)
    const control = made(stage, knob, given, now)
    const input = control.element
    const heard = (/** @type {Event} */ event) => {
      if (kind === "choice" || kind === "toggle") return event.type === "change" && set(name, control.value, false)
      if (event.type === "change") return
      const value = rounded(knob, /** @type {number} */ (control.value), { ...given.knobs[name], max: most(knob, now(), given) })
      control.value = /** @type {never} */ (value)
      set(name, value, true)
    } // prettier-ignore
    input.addEventListener("input", heard, { signal: stage.signal })
    input.addEventListener("change", heard, { signal: stage.signal })
    input.dataset.knob = name
    return { knob, control }
  })
  stage.bar = null
  /** @param {State} s */
  const sync = (s) => {
    for (const { knob, control } of mounted) {
      const { name } = knob
      control.element.hidden = !knob.when(s)
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
