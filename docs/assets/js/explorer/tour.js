// A walk through a few views. It starts when it is asked to, and ends with Escape.

import { make, press } from "../kit/controls.js"

/** @import { State } from "./types.js" */

/** @type {(signal: AbortSignal, home: HTMLElement, steps: Array<[State, string, string]>,
 *   page: { go: (state: State) => void, done: () => void }) => void} */
export const tour = (signal, home, steps, { go, done }) => {
  let at = 0
  const count = make("span", { class: "explorer-count" })
  const title = make("strong")
  const text = make("p")
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
  const back = press(signal, "Back", () => to(at - 1))
  const next = press(signal, "Next", () => to(at + 1))
  const description = make("div", { "aria-live": "polite" }, [count, " ", title, text])
  const buttons = make("div", { class: "stage-bar" }, [back, next, press(signal, "End", end)])
  const element = make("div", { class: "explorer-tour", role: "group", "aria-label": "Guided tour" }, [
    description,
    buttons,
  ])
  element.addEventListener("keydown", ({ key }) => key === "Escape" && end(), { signal })
  home.replaceChildren(element)
  to(0)
  next.focus()
}
