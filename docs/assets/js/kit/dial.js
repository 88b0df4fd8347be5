// A clock's face with its hand.

import { hand } from "./plot.js"

/** Angle 0 points right and grows counterclockwise, as in mathematics.
 * @param {CanvasRenderingContext2D} ctx @param {import("./paper.js").Look} look @param {number} x @param {number} y
 * @param {number} radius @param {number} angle @param {string} color
 * @param {number} [length] of the hand, as a share of the radius */
export const dial = (ctx, look, x, y, radius, angle, color, length = 1) => {
  ctx.save()
  ctx.beginPath()
  ctx.arc(x, y, radius, 0, 2 * Math.PI)
  ctx.strokeStyle = look.rule
  ctx.lineWidth = 1.2
  ctx.stroke()
  hand(ctx, x, y, radius * length, angle, color)
  ctx.restore()
}
