// The Python of the state, and a button that copies it.

import { make } from "../kit/controls.js"
import { python } from "./snippet.js"

/** @param {HTMLElement} box @param {import("./types.js").Shown} shown */
export const fill = (box, { stage, given, view }) => {
  const text = make("code")
  const button = make("button", { type: "button", class: "stage-button" }, ["Copy"])
  box.append(button, make("pre", { tabindex: "0", "aria-label": "Python" }, [text]))
  box.className = "explorer-python"
  const write = () => {
    const now = python(view().state, given)
    if (text.textContent === now) return
    text.textContent = now
    button.textContent = "Copy"
  }
  const copy = async () => {
    await navigator.clipboard.writeText(text.textContent ?? "")
    button.textContent = "Copied"
  }
  button.addEventListener("click", copy, { signal: stage.signal })
  stage.each(write)
  write()
}
