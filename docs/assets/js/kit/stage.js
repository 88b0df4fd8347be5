// What a live figure is built on: controls, canvases, a line that says what is seen, and one redraw per frame.
//
//   export default function clockFilm(stage) {
//     const p = stage.slider("position", { min: 0, max: 63, value: 21 })
//     stage.canvas({ label: () => `…`, ratio: 0.4, draw: (ctx, width, height, look) => { … } })
//     stage.say(() => `At ${p.value} …`)
//   }
//
// What a pointer can do on a canvas, a control must do too: then keyboards and screen readers need nothing else.

import { button, choice, film, predict, select, slider, toggle } from "./controls.js"
import { Paper } from "./paper.js"

const SPEAK = 400 // milliseconds of rest before a screen reader hears the line

export class Stage {
  /** @param {HTMLElement} host @param {any} data what the page has computed @param {AbortSignal} signal */
  constructor(host, data, signal) {
    this.host = host
    this.data = data
    this.signal = signal // aborted when the figure leaves the page: pass it to every listener
    this.element = document.createElement("div")
    this.element.className = "stage"
    /** @type {HTMLElement | null} */
    this.bar = null
    /** @type {Array<() => void>} */
    this.parts = []
    this.frame = 0
    this.drawn = 0
    signal.addEventListener("abort", () => cancelAnimationFrame(this.frame), { once: true })
  }

  /** Draw now, and again when the page changes its colors. */
  begin() {
    const repaint = new MutationObserver(() => this.changed())
    repaint.observe(document.body, { attributes: true, attributeFilter: ["data-md-color-scheme"] })
    this.signal.addEventListener("abort", () => repaint.disconnect(), { once: true })
    document.fonts.ready.then(() => this.changed())
    this.draw()
  }

  /** Ask for a redraw in the next frame. */
  changed() {
    if (this.frame || this.signal.aborted) return
    this.frame = requestAnimationFrame(() => this.draw())
  }

  draw() {
    cancelAnimationFrame(this.frame)
    this.frame = 0
    for (const part of this.parts) part()
    this.drawn += 1
  }

  /** Run `part` at every redraw, in the order in which parts were added. @param {() => void} part */
  each(part) {
    this.parts.push(part)
  }

  /** @template {HTMLElement} T @param {T} element @returns {T} */
  add(element) {
    this.bar = null
    this.element.append(element)
    return element
  }

  /** Put a control into the bar, beside the controls before it. @param {HTMLElement} element */
  control(element) {
    if (!this.bar) {
      this.bar = document.createElement("div")
      this.bar.className = "stage-bar"
      this.element.append(this.bar)
    }
    this.bar.append(element)
  }

  /** @param {string} label @param {import("./controls.js").SliderOptions} options */
  slider(label, options) {
    return slider(this, label, options)
  }

  /** @param {string} label @param {Array<string | [string, string]>} options @param {string} [value] */
  choice(label, options, value) {
    return choice(this, label, options, value)
  }

  /** @param {string} label @param {Array<string | [string, string]>} options @param {string} [value] */
  select(label, options, value) {
    return select(this, label, options, value)
  }

  /** @param {string} label @param {boolean} [value] */
  toggle(label, value = false) {
    return toggle(this, label, value)
  }

  /** @param {string} label @param {() => void} action */
  button(label, action) {
    return button(this, label, action)
  }

  /** Play, pause and scrub. @param {string} label @param {import("./controls.js").FilmOptions} options */
  film(label, options) {
    return film(this, label, options)
  }

  /** Ask before showing. @param {string} question @param {string[]} answers @param {(given: string) => string} reply */
  predict(question, answers, reply) {
    return predict(this, question, answers, reply)
  }

  /** @param {import("./paper.js").PaperOptions} options */
  canvas(options) {
    const paper = new Paper(this, options)
    this.add(paper.element)
    this.each(() => paper.draw())
    return paper
  }

  /** Say under the figure, and to screen readers, what is seen now. @param {() => string} text */
  say(text) {
    const line = this.add(document.createElement("p"))
    line.className = "stage-say"
    const spoken = this.element.appendChild(document.createElement("p"))
    spoken.className = "stage-spoken"
    spoken.setAttribute("role", "status")
    let [wait, wide, high] = [0, 0, 0]
    const grown = new ResizeObserver(([{ contentRect: box }]) => {
      high = wide && wide !== box.width ? 0 : Math.max(high, box.height) // what is below moves once
      wide = box.width
      line.style.minHeight = high ? `${high}px` : ""
    })
    grown.observe(line)
    this.each(() => {
      const now = text()
      if (line.textContent === now) return
      line.textContent = now
      clearTimeout(wait)
      if (this.drawn) wait = setTimeout(() => (spoken.textContent = now), SPEAK)
    })
    this.signal.addEventListener("abort", () => (clearTimeout(wait), grown.disconnect()), { once: true })
    return line
  }
}
