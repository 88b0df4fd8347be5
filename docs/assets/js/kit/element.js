// <posenc-figure name="clock-film">: a still picture, until it comes near the screen and its script takes over.

import { Stage } from "./stage.js"

const NEAR = "600px" // how far below the screen a figure begins to load

class LiveFigure extends HTMLElement {
  connectedCallback() {
    this.life = new AbortController()
    const { signal } = this.life
    const observer = new IntersectionObserver(
      (entries) => {
        if (!entries.some((entry) => entry.isIntersecting)) return
        observer.disconnect()
        this.start(signal)
      },
      { rootMargin: NEAR },
    )
    observer.observe(this)
    signal.addEventListener("abort", () => observer.disconnect(), { once: true })
  }

  disconnectedCallback() {
    this.life?.abort()
    this.life = undefined // the theme may keep this element: nothing of the stage should stay with it
    this.querySelector(":scope > .stage")?.remove()
    this.removeAttribute("live")
  }

  /** @param {AbortSignal} signal */
  async start(signal) {
    const module = await import(`../figures/${this.getAttribute("name")}.js`)
    if (signal.aborted) return
    const data = JSON.parse(this.getAttribute("data") ?? "null")
    const stage = new Stage(this, data, signal)
    const result = await module.default(stage)
    if (result === false || signal.aborted) return // the still picture stays
    this.append(stage.element)
    stage.begin()
    this.setAttribute("live", "") // hides the still picture
  }
}

if (!customElements.get("posenc-figure")) customElements.define("posenc-figure", LiveFigure)
