// On the page for addresses that have none: the address's words, ready to be searched for, and the pages closest to it.

import { make } from "./kit/controls.js"

const CLOSE = 0.34 // of a page's words, as pairs of letters, that the address must have
const SHOWN = 3

/** Pairs of letters, which a mistyped word shares with the right one. @param {string} text */
const pairs = (text) => {
  const words =
    decodeURIComponent(text)
      .toLowerCase()
      .match(/[a-z]+/g) ?? []
  return new Set(words.flatMap((word) => Array.from(word.slice(1), (_, i) => word.slice(i, i + 2))))
}

/** How alike two addresses are, from 0 to 1. @param {string} first @param {string} second */
const alike = (first, second) => {
  const [a, b] = [pairs(first), pairs(second)]
  const both = [...a].filter((pair) => b.has(pair)).length
  return both ? (2 * both) / (a.size + b.size) : 0
}

/** The last part of an address, in words. @param {string} path */
const last = (path) =>
  path
    .replace(/(index)?(\.\w+)?\/*$/, "")
    .split("/")
    .pop() ?? ""

/** Pages by their addresses, the most alike first. @param {string} path @param {string[]} pages */
const likely = (path, pages) => {
  const score = (/** @type {string} */ page) => Math.max(alike(last(path), last(page)), alike(path, page))
  return pages
    .map((page) => ({ page, score: score(page) }))
    .filter(({ score }) => score > CLOSE)
    .sort((a, b) => b.score - a.score)
    .slice(0, SHOWN)
    .map(({ page }) => page)
}

/** @param {HTMLElement} part */
export default async function open(part) {
  const form = part.querySelector("form")
  const box = part.querySelector("input")
  if (!form || !box || part.dataset.opened) return
  part.dataset.opened = ""
  const home = new URL(form.action)
  const path = location.pathname.slice(home.pathname.length)
  box.value = last(path)
    .replace(/[^\p{L}\p{N}]+/gu, " ")
    .trim()
  const map = await fetch(new URL("sitemap.xml", home)).then((reply) => reply.text())
  const addresses = [...map.matchAll(/<loc>(.*?)<\/loc>/g)].map(([, address]) => address)
  const root = addresses.reduce((a, b) => (a.length < b.length ? a : b), addresses[0] ?? "")
  const places = addresses.map((address) => address.slice(root.length)).filter(Boolean)
  const pages = likely(path, places)
  if (!pages.length) return
  const links = pages.map((page) => make("li", {}, [make("a", { href: home.pathname + page }, [page])]))
  part.append(make("p", {}, ["Pages with an address close to this one:"]), make("ul", {}, links))
}
