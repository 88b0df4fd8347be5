// Fields for answers: under each exercise of the workbook that asks for numbers or a letter, judged in the page.

import { make } from "./kit/controls.js"
import { judge } from "./math/verdicts.js"

/** @import { Exercise, Scales } from "./math/verdicts.js" */

const ASKS = { number: "Your number, or a formula such as 2*pi/16", array: "Your numbers, with commas between" }

/** @param {string} number @param {Exercise} exercise */
const fieldOf = (number, exercise) => {
  if (exercise.kind !== "choice") {
    const attributes = { name: "answer", autocomplete: "off", spellcheck: "false", placeholder: ASKS[exercise.kind] }
    return make("input", { ...attributes, "aria-label": `Answer to exercise ${number}` })
  }
  const options = (exercise.options ?? []).map((letter) =>
    make("label", {}, [make("input", { type: "radio", name: "answer", value: letter, required: "" }), letter]),
  )
  return make("span", { role: "radiogroup", "aria-label": `Answer to exercise ${number}` }, options)
}

/** @param {string} number @param {Exercise} exercise @param {Scales} scales */
const formOf = (number, exercise, scales) => {
  const verdict = make("p", { class: "answer-verdict", role: "status" })
  const button = make("button", { class: "stage-button" }, ["Check"])
  const form = /** @type {HTMLFormElement} */ (
    make("form", { class: "answer" }, [fieldOf(number, exercise), button, verdict])
  )
  form.addEventListener("submit", (event) => {
    event.preventDefault()
    const text = String(new FormData(form).get("answer") ?? "")
    if (!text.trim()) return
    const { right, words } = judge(text, exercise, scales)
    verdict.textContent = words
    form.classList.toggle("answer-right", right)
    form.classList.toggle("answer-wrong", !right)
  })
  return form
}

/** Put a field above the hint of each exercise. @param {HTMLElement} part */
export default function open(part) {
  if (document.querySelector("form.answer")) return
  /** @type {{ scales: Scales, exercises: Record<string, Exercise> }} */
  const { scales, exercises } = JSON.parse(part.dataset.answers ?? "{}")
  for (const [number, exercise] of Object.entries(exercises)) {
    let next = document.getElementById(`exercise-${number.replace(".", "-")}`)?.nextElementSibling
    while (next && !/^(DETAILS|H[1-3])$/.test(next.tagName)) next = next.nextElementSibling
    next?.before(formOf(number, exercise, scales))
  }
}
