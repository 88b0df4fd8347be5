// Controls that every figure shares. Each has a `value`; setting it redraws the figure as a reader's hand does.

/** @typedef {import("./stage.js").Stage} Stage */
/** @typedef {{ min: number, max: number, value: number, step?: number, log?: boolean,
 *   show?: (value: number) => string }} SliderOptions */
/** @typedef {{ min: number, max: number, value: number, step?: number, rate: number,
 *   show?: (value: number) => string }} FilmOptions */
/** @template T @typedef {{ value: T, element: HTMLElement, input: HTMLElement }} Control */

const STEPS = 400 // of a logarithmic slider

/** @param {string} tag @param {Record<string, string>} [attributes] @param {Array<Node | string>} [children] */
export const make = (tag, attributes = {}, children = []) => {
  const element = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value)
  element.append(...children)
  return element
}

/** @type {(stage: Stage, label: string, options: SliderOptions) => Control<number> & { min: number, max: number }} */
export const slider = (stage, label, { min, max, value, step = 1, log = false, show = String }) => {
  const input = /** @type {HTMLInputElement} */ (make("input", { type: "range", "aria-label": label }))
  const shown = make("output", { "aria-hidden": "true" })
  const toPlace = (/** @type {number} */ v) => (log ? (STEPS * Math.log(v / min)) / Math.log(max / min) : v)
  const toValue = (/** @type {number} */ place) => (log ? min * (max / min) ** (place / STEPS) : place)
  const control = {
    element: make("label", { class: "stage-slider" }, [make("span", {}, [label]), input, shown]),
    input,
    get value() {
      return value
    },
    set value(v) {
      value = Math.min(max, Math.max(min, v))
      input.value = String(toPlace(value))
      told()
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
  const told = () => {
    shown.textContent = show(value)
    input.setAttribute("aria-valuetext", show(value))
    stage.changed()
  }
  const bounds = () => {
    Object.assign(input, log ? { min: 0, max: STEPS, step: 1 } : { min, max, step })
    control.value = value
  }
  const heard = () => {
    value = toValue(Number(input.value))
    told()
  }
  bounds()
  input.addEventListener("input", heard, { signal: stage.signal })
  stage.control(control.element)
  return control
}

/** Two to five short options side by side.
 * @type {(stage: Stage, label: string, options: Array<string | [string, string]>, value?: string) => Control<string>}
 */
export const choice = (stage, label, options, value) => {
  const pairs = options.map((option) => (typeof option === "string" ? [option, option] : option))
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
      inputs.forEach((input) => (input.checked = input.value === v))
      stage.changed()
    },
  }
  inputs.forEach((input) =>
    input.addEventListener("change", () => (control.value = input.value), { signal: stage.signal }),
  )
  control.value = value
  stage.control(control.element)
  return control
}

/** Many options, or long ones.
 * @type {(stage: Stage, label: string, options: Array<string | [string, string]>, value?: string) => Control<string>}
 */
export const select = (stage, label, options, value) => {
  const pairs = options.map((option) => (typeof option === "string" ? [option, option] : option))
  const input = /** @type {HTMLSelectElement} */ (
    make(
      "select",
      {},
      pairs.map(([key, text]) => make("option", { value: key }, [text])),
    )
  )
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

/** @param {Stage} stage @param {string} label @param {boolean} value @returns {Control<boolean>} */
export const toggle = (stage, label, value) => {
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
 * @param {Stage} stage @param {string} label @param {FilmOptions} options */
export const film = (stage, label, { rate, ...given }) => {
  const options = { show: (/** @type {number} */ value) => String(Math.floor(value)), ...given }
  let last = 0
  let shown = NaN
  const still = matchMedia("(prefers-reduced-motion: reduce)")
  const both = make("div", { class: "stage-film" })
  stage.control(both)
  const bar = stage.bar
  stage.bar = both
  const play = button(stage, "Play", () => (last ? pause() : run()))
  const place = slider(stage, label, options)
  stage.bar = bar
  const run = () => {
    shown = place.value
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
    if (place.value !== shown) return pause() // a hand has moved it
    // a step a second, and no glide
    const [pace, unit] = still.matches ? [1000, Math.max(options.step ?? 1, rate)] : [0, 0]
    if (now - last > pace) {
      const next = place.value + (unit || (rate * (now - last)) / 1000)
      place.value = next > place.max ? place.min : next
      shown = place.value
      last = now
    }
    requestAnimationFrame(turn)
  }
  return Object.assign(place, { play, run, pause })
}

/** Ask first: the answers are buttons, and `then` runs once when one is chosen.
 * @param {Stage} stage @param {string} question @param {string[]} answers @param {(given: string) => string} reply */
export const predict = (stage, question, answers, reply) => {
  const said = make("p", { role: "status" })
  const control = { given: "", element: make("div", { class: "stage-predict" }, [make("p", {}, [question])]) }
  const buttons = answers.map((text) => make("button", { type: "button", class: "stage-button" }, [text]))
  buttons.forEach((element) =>
    element.addEventListener(
      "click",
      () => {
        control.given = element.textContent ?? ""
        buttons.forEach((other) => other.setAttribute("aria-pressed", String(other === element)))
        said.textContent = reply(control.given)
        stage.changed()
      },
      { signal: stage.signal },
    ),
  )
  control.element.append(...buttons, said)
  stage.add(control.element)
  return control
}
