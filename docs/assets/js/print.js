// On paper a link to another host says where it leads. The theme makes the links within the site absolute, too.

addEventListener("beforeprint", () => {
  const near = document.querySelectorAll(`.md-content a[href^="${location.origin}"]`)
  for (const link of near) link.setAttribute("data-near", "")
})
