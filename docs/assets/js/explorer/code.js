// The Python of the state, and a button that copies it.

import { make, press } from "../kit/controls.js"
import { program } from "./snippet.js"

/** @param {HTMLElement} box @param {import("./types.js").Shown} shown */
export const fill = (box, { stage, data, view, other }) => {
  const text = make("code")
  const copy = async () => {
    await navigator.clipboard.writeText(text.textContent ?? "")
    button.textContent = "Copied"
  }
  const button = press(stage.signal, "Copy", copy)
  box.append(button, make("pre", { tabindex: "0", "aria-label": "Python" }, [text]))
  box.className = "explorer-python"
  const write = () => {
    const now = program(view().state, other()?.state ?? null, data)
    if (text.textContent === now) return
    text.textContent = now
    button.textContent = "Copy"
  }
  stage.each(write)
  write()
}
