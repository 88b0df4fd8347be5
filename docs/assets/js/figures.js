// Wakes the live figures of a page, and loads nothing where there are none.

const wake = () => {
  if (document.querySelector("posenc-figure")) import("./kit/element.js")
}

// @ts-ignore  the theme announces each page that instant navigation brings
if (window.document$) window.document$.subscribe(wake)
else wake()
