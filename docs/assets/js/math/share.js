// What one loud token gets of the weight of a text, and what queries are multiplied by at each place.

/** Share of a token that leads `tokens` - 1 equal ones. @param {number} lead @param {number} tokens */
export const share = (lead, tokens) => 1 / (1 + (tokens - 1) * Math.exp(-lead))

/** Factor of a query that sees `tokens`, by the name of its formula.
 * @type {(kind: string, tokens: number, trained: number, strength: number) => number} */
export const factor = (kind, tokens, trained, strength) => {
  if (kind === "llama4") return 1 + strength * Math.log1p(Math.floor(tokens / trained))
  if (kind === "ministral") return 1 + strength * Math.log1p(Math.floor((tokens - 1) / trained))
  if (kind === "inkling") return 1 + strength * Math.log(Math.max(tokens / trained, 1))
  if (kind === "logn") return Math.max(Math.log(tokens) / Math.log(trained), 1)
  if (kind === "power") return (1 + tokens / trained) ** strength
  return 1
}
