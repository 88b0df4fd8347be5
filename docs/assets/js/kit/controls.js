// Controls that every figure shares. Each has a `value`; setting it redraws the figure as a reader's hand does.

/** @import { Stage } from "./stage.js" */
/** @typedef {{ min: number, max: number, value: number, step?: number, show?: (value: number) => string }} Range */
/** @template T @typedef {{ value: T, element: HTMLElement, input: HTMLElement }} Control */
/** @typedef {string | [string, string]} Option a key that is its own text, or both */

/** @param {Option} option */
const paired = (option) => (typeof option === "string" ? [option, option] : option)

const STEPS = 400 // of a logarithmic slider

/** What arrow keys move like a control. @param {() => number} get @param {(value: number) => void} set */
export const handle = (get, set) => Object.defineProperty({ value: 0 }, "value", { get, set })

/** @param {string} tag @param {Record<string, string>} [attributes] @param {Array<Node | string>} [children] */
export const make = (tag, attributes = {}, children = []) => {
  const element = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value)
  element.append(...children)
  return element
}

/** @type {(stage: Stage, label: string, range: Range & { log?: boolean }) => Control<number> & { min: number,
 *   max: number }} */
export const slider = (stage, label, { min, max, value, step = 1, log = false, show = String }) => {
  const input = /** @type {HTMLInputElement} */ (make("input", { type: "range", "aria-label": label }))
  const text = make("output", { "aria-hidden": "true" })
  const toPlace = () => (log ? (STEPS * Math.log(value / min)) / Math.log(max / min) : value)
  const control = {
    element: make("label", { class: "stage-slider" }, [make("span", {}, [label]), input, text]),
    input,
    get value() {
      return value
    },
    set value(v) {
      value = Math.min(max, Math.max(min, v))
      input.value = String(toPlace())
      tell()
    },
    get min() {
      return min
    },
    set min(v) {
      min = v
      bounds()
    },
    get max() {
      return max
    },
    set max(v) {
      max = v
      bounds()
    },
  }
  const tell = () => {
    text.textContent = show(value)
    input.setAttribute("aria-valuetext", show(value))
    stage.changed()
  }
  const bounds = () => {
    Object.assign(input, log ? { min: 0, max: STEPS, step: 1 } : { min, max, step })
    control.value = value
  }
  const listen = () => {
    const place = Number(input.value)
    value = log ? min * (max / min) ** (place / STEPS) : place
    tell()
  }
  bounds()
  input.addEventListener("input", listen, { signal: stage.signal })
  stage.control(control.element)
  return control
}

/** Two to five short options side by side.
 * @type {(stage: Stage, label: string, options: Option[], value?: string) => Control<string>} */
export const choice = (stage, label, options, value) => {
  const pairs = options.map(paired)
  value ??= pairs[0][0]
  const name = `choice-${crypto.randomUUID()}`
  const inputs = pairs.map(
    ([key]) => /** @type {HTMLInputElement} */ (make("input", { type: "radio", name, value: key })),
  )
  const marks = pairs.map(([, text], i) => make("label", {}, [inputs[i], make("span", {}, [text])]))
  const control = {
    element: make("div", { class: "stage-choice", role: "radiogroup", "aria-label": label }, [
      make("span", {}, [label]),
      ...marks,
    ]),
    input: inputs[0],
    get value() {
      return /** @type {string} */ (value)
    },
    set value(v) {
      value = v
      for (const input of inputs) input.checked = input.value === v
      stage.changed()
    },
  }
  for (const input of inputs)
    input.addEventListener("change", () => (control.value = input.value), { signal: stage.signal })
  control.value = value
  stage.control(control.element)
  return control
}

/** Many options, or long ones.
 * @type {(stage: Stage, label: string, options: Option[], value?: string) => Control<string>} */
export const select = (stage, label, options, value) => {
  const marks = options.map(paired).map(([key, text]) => make("option", { value: key }, [text]))
  const input = /** @type {HTMLSelectElement} */ (make("select", {}, marks))
  const control = {
    element: make("label", { class: "stage-select" }, [make("span", {}, [label]), input]),
    input,
    get value() {
      return input.value
    },
    set value(v) {
      input.value = v
      stage.changed()
    },
  }
  if (value !== undefined) input.value = value
  input.addEventListener("change", () => stage.changed(), { signal: stage.signal })
  stage.control(control.element)
  return control
}

/** @type {(stage: Stage, label: string, value?: boolean) => Control<boolean>} */
export const toggle = (stage, label, value = false) => {
  const input = /** @type {HTMLInputElement} */ (make("input", { type: "checkbox" }))
  input.checked = value
  const control = {
    element: make("label", { class: "stage-toggle" }, [input, make("span", {}, [label])]),
    input,
    get value() {
      return input.checked
    },
    set value(v) {
      input.checked = v
      stage.changed()
    },
  }
  input.addEventListener("change", () => stage.changed(), { signal: stage.signal })
  stage.control(control.element)
  return control
}

/** A loose button. @param {AbortSignal} signal @param {string} label @param {() => void} action */
export const press = (signal, label, action) => {
  const element = /** @type {HTMLButtonElement} */ (make("button", { type: "button", class: "stage-button" }, [label]))
  element.addEventListener("click", action, { signal })
  return element
}

/** @param {Stage} stage @param {string} label @param {() => void} action */
export const button = (stage, label, action) => {
  const element = press(stage.signal, label, () => (action(), stage.changed()))
  stage.control(element)
  return element
}

/** A slider that runs by itself while it is played: `rate` units a second, to the end and round again.
 * @param {Stage} stage @param {string} label @param {Range & { rate: number }} options */
export const film = (stage, label, { rate, ...range }) => {
  let last = 0
  let own = NaN // the value that the film has set itself
  const still = matchMedia("(prefers-reduced-motion: reduce)")
  const both = make("div", { class: "stage-film" })
  stage.control(both)
  const bar = stage.bar
  stage.bar = both
  const play = button(stage, "Play", () => (last ? pause() : run()))
  const place = slider(stage, label, { show: (value) => String(Math.floor(value)), ...range })
  stage.bar = bar
  const run = () => {
    own = place.value
    if (last) return
    last = performance.now()
    play.textContent = "Pause"
    requestAnimationFrame(turn)
  }
  const pause = () => {
    last = 0
    play.textContent = "Play"
  }
  const turn = (/** @type {number} */ now) => {
    if (!last || stage.signal.aborted) return
    if (place.value !== own) return pause() // a hand has moved it
    // a step a second, and no glide
    const [pace, unit] = still.matches ? [1000, Math.max(range.step ?? 1, rate)] : [0, 0]
    if (now - last > pace) {
      const next = place.value + (unit || (rate * (now - last)) / 1000)
      place.value = next > place.max ? place.min : next
      own = place.value
      last = now
    }
    requestAnimationFrame(turn)
  }
  return Object.assign(place, { play, run, pause })
}

/** Ask first: the answers are buttons, and the reply to that which is chosen stands under them.
 * @param {Stage} stage @param {string} question @param {string[]} answers @param {(answer: string) => string} reply */
export const predict = (stage, question, answers, reply) => {
  const response = make("p", { role: "status" })
  const buttons = answers.map((text) =>
    press(stage.signal, text, () => {
      for (const button of buttons) button.setAttribute("aria-pressed", String(button.textContent === text))
      response.textContent = reply(text)
      stage.changed()
    }),
  )
  stage.add(make("div", { class: "stage-predict" }, [make("p", {}, [question]), ...buttons, response]))
}
