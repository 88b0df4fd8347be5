// What pictures are painted on before they become files.

/** A canvas in the color of the page, and what gives it as a file. @param {number} width @param {number} height */
export const sheet = (width, height) => {
  const canvas = Object.assign(document.createElement("canvas"), { width, height })
  const ctx = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"))
  ctx.fillStyle = getComputedStyle(document.body).getPropertyValue("--paper").trim() || "white"
  ctx.fillRect(0, 0, width, height)
  /** @returns {Promise<Blob | null>} */
  const blob = () => new Promise((done) => canvas.toBlob(done))
  return { ctx, blob }
}
