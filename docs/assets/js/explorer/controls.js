// A control for each knob, shown where it applies.

import { make } from "../kit/controls.js"
import { short } from "../kit/plot.js"
import { DOORS, KINDS } from "./kinds.js"
import { KNOBS } from "./settings.js"
import { columnsOf, longest, rounded, wordAt } from "./defaults.js"
import { NAMES } from "./labels.js"

/** @import { Stage } from "../kit/stage.js" */
/** @import { Knob, PageData, State } from "./types.js" */

const FEW = 3 // choices that stand side by side
const WORDS = ["query", "key"] // knobs that name a word

/** @param {Knob} knob @param {State} s @param {PageData} data */
export const most = ({ name }, s, data) => {
  if (["query", "key", "peak"].includes(name)) return s.length - 1
  if (name === "channel") return columnsOf(s) - 1
  if (name === "head") return s.heads - 1
  if (name === "width") return Math.min(data.knobs.width.max, KINDS[s.encoding].widest ?? Infinity)
  if (name === "length" && s.encoding === "learned" && s.table === "trained") return data.trained.length
  if (name === "length") return Math.min(data.knobs.length.max, longest(s))
  return data.knobs[name]?.max
}

/** @param {string} name @param {string} key */
const named = (name, key) => (name === "order" ? key : (NAMES[key] ?? key))

/**
 * @typedef {object} Board
 * @property {() => State} now
 * @property {(name: string, value: any, moves: boolean) => void} set
 * @property {(name: string) => boolean} offers
 * @property {(name: string) => HTMLElement} home where each knob stands
 * @property {(name: string) => void} uses the hand or the keyboard has come to it
 */

/** @param {Stage} stage @param {PageData} data @param {Board} board */
export const knobs = (stage, data, { now, set, offers, home, uses }) => {
  const mounted = KNOBS.map((knob) => {
    const { name, kind, help } = knob
    stage.bar = home(name)
    const control = controlFor(stage, knob, data, now)
    const input = control.element
    const chosen = () => set(name, control.value, false)
    const turned = () => {
      const bounds = { ...data.knobs[name], max: most(knob, now(), data) }
      const value = rounded(knob, /** @type {number} */ (control.value), bounds)
      control.value = /** @type {never} */ (value)
      set(name, value, true)
    }
    const typed = () => set(name, control.value, true)
    const listener = { choice: chosen, toggle: chosen, text: typed, integer: turned, log: turned, share: turned }[kind]
    const { signal } = stage
    input.addEventListener(kind === "choice" || kind === "toggle" ? "change" : "input", listener, { signal })
    for (const event of ["focusin", "pointerdown"]) input.addEventListener(event, () => uses(name), { signal })
    input.dataset.knob = name
    input.title = help
    return { knob, control }
  })
  stage.bar = null
  /** @param {State} s */
  const sync = (s) => {
    for (const { knob, control } of mounted) {
      const { name } = knob
      control.element.hidden = !knob.when(s) || !offers(name)
      if ("max" in control) {
        const bound = most(knob, s, data)
        if (control.max !== bound) control.max = bound
      }
      // what stands at a place may change though the place does not
      const says = WORDS.includes(name) && control.input.getAttribute("aria-valuetext")
      if (control.value !== s[name] || (says && says !== wordAt(s, s[name])))
        control.value = /** @type {never} */ (s[name])
      if (name === "content") {
        for (const option of control.element.querySelectorAll("option"))
          option.hidden = option.disabled = option.value === "peak" && s.encoding !== "rope"
      }
    }
  }
  const shows = (/** @type {string} */ name) =>
    mounted.some(({ knob, control }) => knob.name === name && !control.element.hidden)
  return { sync, shows }
}

/** @param {Stage} stage @param {Knob} knob @param {PageData} data @param {() => State} now */
const controlFor = (stage, { name, label, kind, step = 1 }, data, now) => {
  if (name === "encoding") return encodings(stage, label)
  if (kind === "text") return text(stage, label)
  if (kind === "toggle") return stage.toggle(label, data.toggles[name])
  if (kind === "choice") {
    const options = data.choices[name].map((key) => /** @type {[string, string]} */ ([key, named(name, key)]))
    return options.length <= FEW ? stage.choice(label, options) : stage.select(label, options, options[0][0])
  }
  const { min, max, value } = data.knobs[name]
  const show = (/** @type {number} */ v) => (WORDS.includes(name) ? wordAt(now(), v) : short(v))
  return kind === "log"
    ? stage.slider(label, { min, max, value, log: true, show })
    : stage.slider(label, { min, max, value, step: kind === "share" ? 0.01 : step, show })
}

/** All encodings, by the door through which they enter. @param {Stage} stage @param {string} label */
const encodings = (stage, label) => {
  const names = Object.entries(KINDS)
  const control = stage.select(label, names.map(([key, { name }]) => [key, name])) // prettier-ignore
  const options = Array.from(control.input.querySelectorAll("option"))
  const of = (/** @type {string} */ door) => options.filter(({ value }) => KINDS[value].door === door)
  control.input.replaceChildren(...DOORS.map(([door, label]) => make("optgroup", { label }, of(door))))
  return control
}

/** A line of text. @param {Stage} stage @param {string} label */
const text = (stage, label) => {
  const hints = { spellcheck: "false", maxlength: "200", placeholder: "empty: numbered positions" }
  const input = /** @type {HTMLInputElement} */ (make("input", { type: "text", autocomplete: "off", ...hints }))
  const element = make("label", { class: "stage-text" }, [make("span", {}, [label]), input])
  stage.control(element)
  return {
    element,
    input,
    get value() {
      return input.value
    },
    set value(v) {
      if (document.activeElement !== input) input.value = v // no hand is disturbed while it writes
    },
  }
}
