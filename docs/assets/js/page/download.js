// Hand a file over to the browser.

/** @param {Blob | null} blob @param {string} name */
export const download = (blob, name) => {
  if (!blob) return
  const address = URL.createObjectURL(blob)
  Object.assign(document.createElement("a"), { href: address, download: name }).click()
  URL.revokeObjectURL(address)
}
