// A clock's face with its hand.

import { circle, hand } from "./plot.js"

/** @import { Look } from "./paper.js" */

/** Angle 0 points right and grows counterclockwise, as in mathematics.
 * @param {CanvasRenderingContext2D} ctx @param {Look} look @param {number} x @param {number} y @param {number} radius
 * @param {number} angle @param {string} color @param {number} [length] of the hand, as a share of the radius */
export const dial = (ctx, look, x, y, radius, angle, color, length = 1) => {
  ctx.save()
  circle(ctx, x, y, radius, look.rule)
  hand(ctx, x, y, radius * length, angle, color)
  ctx.restore()
}
