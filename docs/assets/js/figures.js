// Wakes what lives on a page, and loads nothing where nothing does.

const wake = () => {
  if (document.querySelector("posenc-figure")) import("./kit/element.js")
  if (document.querySelector("[data-narrow]")) import("./page/narrow-figures.js").then((script) => script.default())
  if (document.querySelector(".checked")) import("./page/checked-numbers.js").then((script) => script.default())
  if (document.querySelector("figure.drawn")) import("./page/figure-tools.js").then((script) => script.default())
  for (const part of document.querySelectorAll("[data-script]"))
    for (const name of (part.getAttribute("data-script") ?? "").split(" "))
      import(`./${name}.js`).then((script) => script.default(part))
}

// @ts-ignore  the theme announces each page that it brings
if (window.document$) window.document$.subscribe(wake)
else wake()
