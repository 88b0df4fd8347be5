// A walk through a few views. It starts when it is asked to, and ends with Escape.

import { make } from "../kit/controls.js"

/** @import { State } from "./types.js" */

/** @param {AbortSignal} signal @param {HTMLElement} home @param {Array<[State, string, string]>} steps @param {{ go: (state: State) => void, done: () => void }} page */
export const tour = (signal, home, steps, { go, done }) => {
  let at = 0
  const count = make("span", { class: "explorer-count" })
  const title = make("strong")
  const text = make("p")
  const button = (/** @type {string} */ name, /** @type {() => void} */ act) => {
    const element = make("button", { type: "button", class: "stage-button" }, [name])
    element.addEventListener("click", act, { signal })
    return element
  }
  const end = () => {
    element.remove()
    done()
  }
  const to = (/** @type {number} */ step) => {
    at = step
    if (step >= steps.length) return end()
    const [state, name, words] = steps[step]
    count.textContent = `Step ${step + 1} of ${steps.length}`
    title.textContent = name
    text.textContent = words
    back.toggleAttribute("disabled", step === 0)
    next.textContent = step === steps.length - 1 ? "Finish" : "Next"
    go(state)
    if (document.activeElement === back && step === 0) next.focus()
  }
  const back = button("Back", () => to(at - 1))
  const next = button("Next", () => to(at + 1))
  const said = make("div", { "aria-live": "polite" }, [count, " ", title, text])
  const buttons = make("div", { class: "stage-bar" }, [back, next, button("End", end)])
  const element = make("div", { class: "explorer-tour", role: "group", "aria-label": "Guided tour" }, [said, buttons])
  element.addEventListener("keydown", ({ key }) => key === "Escape" && end(), { signal })
  home.replaceChildren(element)
  to(0)
  next.focus()
}
