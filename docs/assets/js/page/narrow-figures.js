// On a phone a still figure gives way to a narrow drawing of the same, which waits in a file of its own.

const NEAR = "600px" // how far below the screen a figure begins to load
const PHONE = matchMedia("(max-width: 44.984375em)")

/** @param {HTMLElement} still @param {string} address */
const replace = async (still, address) => {
  try {
    const answer = await fetch(address)
    if (!answer.ok) throw new Error(answer.statusText)
    const file = new DOMParser().parseFromString(await answer.text(), "image/svg+xml")
    if (file.querySelector("parsererror")) throw new Error("no drawing")
    file.documentElement.classList.add("for-phone")
    still.append(document.importNode(file.documentElement, true))
  } catch {
    still.removeAttribute("data-narrow") // the wide drawing, which is pushed sideways
  }
}

/** @param {HTMLElement[]} stills */
const watch = (stills) => {
  // Relative addresses hold until the theme leads to another page.
  const addresses = new Map(stills.map((still) => [still, new URL(still.dataset.narrow ?? "", location.href).href]))
  const observer = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        if (!isIntersecting) continue
        observer.unobserve(target)
        const still = /** @type {HTMLElement} */ (target)
        replace(still, addresses.get(still) ?? "")
      }
    },
    { rootMargin: NEAR },
  )
  for (const still of stills) observer.observe(still)
}

/** Now where the screen is narrow, else once it becomes so. */
export default () => {
  const stills = () => {
    const all = /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(".drawn-svg[data-narrow]"))
    return [...all].filter((still) => !still.querySelector(".for-phone"))
  }
  if (PHONE.matches) watch(stills())
  PHONE.onchange = ({ matches }) => matches && watch(stills())
}
