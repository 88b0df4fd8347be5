// Wakes what lives on a page, and loads nothing where nothing does.

const wake = () => {
  if (document.querySelector("posenc-figure")) import("./kit/element.js")
  for (const part of document.querySelectorAll("[data-script]"))
    import(`./${part.getAttribute("data-script")}.js`).then((script) => script.default(part))
}

// @ts-ignore  the theme announces each page that it brings
if (window.document$) window.document$.subscribe(wake)
else wake()
