// Where everything stands: kinds and acts above, settings beside the panels; on a narrow screen a sheet below them.

import { make, press } from "../kit/controls.js"
import { KNOBS } from "./settings.js"

/** @import { Stage } from "../kit/stage.js" */
/** @typedef {ReturnType<typeof createLayout>} Layout */

const PANELS = ["Pattern", "Matrix", "Response", "Last"]

/** @param {Stage} stage */
export const createLayout = (stage) => {
  const kinds = stage.add(make("div", { class: "stage-bar explorer-kinds" }))
  const guided = stage.add(make("div"))
  const notice = stage.add(make("p", { class: "explorer-notice", role: "status" }))
  const whose = make("div", { class: "explorer-whose" })
  const settings = make("div", { class: "explorer-settings" })
  const place = make("div", { class: "explorer-settings explorer-place" })
  const help = make("p", { class: "explorer-help" })
  const main = make("div", { class: "explorer-main" })
  const strip = make("div", { class: "explorer-strip" })
  const labels = { role: "group", "aria-label": "Settings" }
  const side = make("div", { class: "explorer-side", ...labels }, [strip, whose, settings, place, help])
  stage.add(make("div", { class: "explorer-body" }, [side, main]))
  return { kinds, guided, notice, whose, settings, place, help, main, strip, side }
}

/** The knob in use: on a narrow screen the only one, chosen from a list, beside the panel that it changes.
 * @param {Stage} stage @param {Layout} home @param {HTMLElement} grid @param {(name: string) => boolean} shows */
export const sheet = (stage, { strip, side, help, settings, place }, grid, shows) => {
  let current = "base"
  const list = /** @type {HTMLSelectElement} */ (make("select", { "aria-label": "Which setting" }))
  const all = press(stage.signal, "All settings", () => open(!side.hasAttribute("data-all")))
  all.setAttribute("aria-expanded", "false")
  const open = (/** @type {boolean} */ wide) => {
    side.toggleAttribute("data-all", wide)
    all.textContent = wide ? "One setting" : "All settings"
    all.setAttribute("aria-expanded", String(wide))
  }
  const tabs = PANELS.map((name, i) => {
    const tab = press(stage.signal, name, () => show(i))
    tab.setAttribute("aria-pressed", "false")
    return tab
  })
  const show = (/** @type {number} */ i) => {
    grid.dataset.panel = String(i)
    tabs.forEach((tab, j) => tab.setAttribute("aria-pressed", String(i === j)))
    stage.changed()
  }
  strip.append(make("div", { class: "explorer-tabs", role: "group", "aria-label": "Panel" }, tabs), list, all)
  show(1)
  const use = (/** @type {string} */ name) => {
    current = name
    sync()
  }
  const sync = () => {
    const here = KNOBS.filter(({ name }) => name !== "encoding" && name !== "words" && shows(name))
    if (!here.some(({ name }) => name === current) && here.length) current = here[0].name
    const key = here.map(({ name }) => name).join()
    if (list.dataset.key !== key) {
      list.dataset.key = key
      list.replaceChildren(...here.map(({ name, label }) => make("option", { value: name }, [label])))
    }
    if (list.value !== current) list.value = current
    for (const knob of [...settings.children, ...place.children])
      if (knob instanceof HTMLElement) knob.toggleAttribute("data-current", knob.dataset.knob === current)
    const knob = KNOBS.find(({ name }) => name === current)
    const text = knob ? `${knob.label}: ${knob.help}` : ""
    if (help.textContent !== text) help.textContent = text
  }
  list.addEventListener("change", () => use(list.value), { signal: stage.signal })
  stage.each(sync)
  return { use, current: () => current, names: (/** @type {string} */ last) => (tabs[3].textContent = last) }
}
