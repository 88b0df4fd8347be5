// Flash cards, one at a time: those that a reader knew come back later. Without this script they are folds to open.

import { make } from "./kit/controls.js"

/** @typedef {{ id: string, part: string, front: Node[], back: Node[] }} Card */

const STORAGE = "posenc-cards" // where the browser remembers, by the card's question
const KNOWN = 2 // how often in a row a card must be known before it rests

/** @returns {Record<string, number>} */
const remembered = () => {
  try {
    const boxes = JSON.parse(localStorage.getItem(STORAGE) ?? "{}")
    return boxes && typeof boxes === "object" && !Array.isArray(boxes) ? boxes : {}
  } catch {
    return {} // a browser that keeps nothing, or text that is not ours
  }
}

/** @param {Record<string, number>} boxes */
const remember = (boxes) => {
  try {
    localStorage.setItem(STORAGE, JSON.stringify(boxes))
  } catch {
    // then they last as long as the page
  }
}

/** @param {Node[]} nodes */
const copies = (nodes) => nodes.map((node) => node.cloneNode(true))

/** The cards of the page, each with the heading above it. @param {HTMLElement} deck @returns {Card[]} */
const read = (deck) => {
  let part = ""
  /** @type {Card[]} */
  const cards = []
  for (const element of deck.children) {
    if (element instanceof HTMLHeadingElement) part = (element.firstChild?.textContent ?? "").trim()
    const summary = element.matches("details.flash") ? element.querySelector("summary") : null
    if (!summary) continue
    const back = [...element.childNodes].filter((node) => node !== summary)
    cards.push({ id: (summary.textContent ?? "").trim(), part, front: [...summary.childNodes], back })
  }
  return cards
}

/** Put the practice above the list. @param {HTMLElement} deck */
export default function open(deck) {
  const cards = read(deck)
  if (!cards.length || deck.querySelector(".deal")) return
  let boxes = remembered()
  /** @type {Card[]} */
  let queue = []

  const parts = make("select", {}, [
    make("option", { value: "" }, ["All parts"]),
    ...[...new Set(cards.map((card) => card.part))].map((part) => make("option", { value: part }, [part])),
  ])
  const chosen = /** @type {HTMLSelectElement} */ (parts)
  const place = make("p", { class: "deal-part" })
  const front = make("div", { class: "deal-front", tabindex: "-1" })
  const back = make("div", { class: "deal-back" })
  const count = make("p", { class: "deal-count", role: "status" })
  const filled = make("i", {})
  const bar = make("div", { class: "deal-bar", "aria-hidden": "true" }, [filled])
  /** @param {string} label @param {string} key @param {() => void} action */
  const button = (label, key, action) => {
    const element = /** @type {HTMLButtonElement} */ (
      make("button", { type: "button" }, [label, make("kbd", {}, [key])])
    )
    element.setAttribute("aria-keyshortcuts", key === "␣" ? "Space" : key === "←" ? "ArrowLeft" : "ArrowRight")
    element.addEventListener("click", action)
    return element
  }
  const turn = button("Turn", "␣", () => show(true))
  const missed = button("Again", "←", () => answer(false))
  const knew = button("I knew it", "→", () => answer(true))
  const afresh = make("button", { type: "button", class: "deal-afresh" }, ["Start afresh"])

  const mine = () => cards.filter((card) => !chosen.value || card.part === chosen.value)
  const box = (/** @type {Card} */ card) => Math.min(KNOWN, Math.max(0, Number(boxes[card.id]) || 0))

  const deal = () => {
    queue = mine()
      .filter((card) => box(card) < KNOWN)
      .sort((a, b) => box(a) - box(b)) // a stable sort: within a box, the order of the book
    show(false)
  }

  const show = (/** @type {boolean} */ turned) => {
    const [card] = queue
    const all = mine()
    const steps = all.reduce((sum, item) => sum + box(item), 0)
    const resting = all.filter((item) => box(item) === KNOWN).length
    count.textContent = `${resting} of ${all.length} known twice in a row`
    filled.style.width = `${(100 * steps) / (KNOWN * all.length)}%`
    place.textContent = card ? card.part : "Done"
    front.replaceChildren(...(card ? copies(card.front) : ["You know them all."]))
    back.hidden = !(card && turned)
    back.replaceChildren(...(card && turned ? copies(card.back) : []))
    turn.hidden = turned || !card
    missed.hidden = knew.hidden = !(card && turned)
    table.classList.toggle("deal-turned", turned)
  }

  const answer = (/** @type {boolean} */ right) => {
    const card = queue.shift()
    if (!card) return
    boxes[card.id] = right ? box(card) + 1 : 0
    remember(boxes)
    if (box(card) < KNOWN) queue.splice(right ? queue.length : Math.min(3, queue.length), 0, card)
    show(false)
    front.focus({ preventScroll: true })
  }

  const table = make("section", { class: "deal", "aria-label": "Practice" }, [
    make("div", { class: "deal-top" }, [make("label", {}, [make("span", {}, ["Deck"]), parts]), count]),
    bar,
    make("div", { class: "deal-card", "aria-live": "polite" }, [place, front, back]),
    make("div", { class: "deal-buttons" }, [turn, missed, knew, afresh]),
  ])
  chosen.addEventListener("change", deal)
  afresh.addEventListener("click", () => {
    for (const card of mine()) delete boxes[card.id]
    remember(boxes)
    deal()
  })
  table.addEventListener("keydown", (event) => {
    const on = /** @type {HTMLElement} */ (event.target)
    if (on.closest("select, a") || event.altKey || event.ctrlKey || event.metaKey) return
    const pressed = on.closest("button")
    if (event.key === " " && !turn.hidden && !pressed) turn.click()
    else if (event.key === "ArrowLeft" && !missed.hidden) missed.click()
    else if (event.key === "ArrowRight" && !knew.hidden) knew.click()
    else return
    event.preventDefault()
  })
  table.querySelector(".deal-card")?.addEventListener("click", (event) => {
    if (!turn.hidden && !(/** @type {HTMLElement} */ (event.target).closest("a"))) turn.click()
  })
  deck.prepend(table, make("h2", { class: "deal-list" }, ["All cards"]))
  deal()
}
