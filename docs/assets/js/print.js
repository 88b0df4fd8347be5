// On paper nothing opens by a click, and a link to another host says where it leads.

/** @type {Element[]} */
let opened = []

addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details:not([open])")]
  for (const fold of opened) fold.setAttribute("open", "")
  // The theme makes the links within the site absolute.
  const near = document.querySelectorAll(`.md-content a[href^="${location.origin}"]`)
  for (const link of near) link.setAttribute("data-near", "")
})

addEventListener("afterprint", () => {
  for (const fold of opened) fold.removeAttribute("open")
  opened = []
})
