// A configuration of transformers, told from those of other programs; vLLM's keys in it as transformers' own.
// posenc.config.formats.detection in another language, which reads the other programs' as well.

import { filled, isDict } from "./rules.js"

/** @import { Fields, Rules } from "./rules.js" */

/** The configuration of transformers; another program's is refused. @param {Fields} config @param {Rules} rules */
export const recognized = (config, rules) => {
  const name = formatOf(config, rules)
  if (name) throw new Error(`plan: config must be in the keys of transformers, got those of ${name}`)
  const foreign = Object.keys(config).filter((key) => Object.hasOwn(rules.FOREIGN, key) && config[key])
  if (foreign.length && !("model_type" in config)) {
    const formats = Object.keys(rules.FORMATS).join(", ")
    throw new Error(filled(rules.sentences.OTHER_FORMAT, { formats, keys: foreign.join(", ") }))
  }
  return withoutVllm(config, rules)
}

/** The name of the format whose keys a configuration has. @param {Fields} config @param {Rules} rules */
const formatOf = (config, { FORMATS }) =>
  Object.keys(FORMATS).find((name) => {
    const { all = [], any, none = [], ending } = FORMATS[name]
    const isIn = (/** @type {string} */ key) => key in config
    const hasEnding = !ending || Object.keys(config).some((key) => key.endsWith(ending[0]))
    return all.every(isIn) && (!any || any.some(isIn)) && !none.some(isIn) && hasEnding
  })

/** A configuration with vLLM's keys of YaRN as the attention_factor that they make.
 * @param {Fields} config @param {Rules} rules */
const withoutVllm = (config, rules) => {
  const fields = { ...config }
  for (const name of ["rope_scaling", "rope_parameters"]) {
    if (!isDict(fields[name])) continue
    const rope = { ...fields[name] }
    const ropeType = rope.rope_type ?? rope.type
    if (ropeType in rules.VLLM_ROPE_TYPES) rope.rope_type = rules.VLLM_ROPE_TYPES[ropeType]
    const keys = rules.VLLM_KEYS.filter((key) => key in rope)
    const stated = Object.fromEntries(keys.map((key) => [key, rope[key]]))
    for (const key of keys) delete rope[key]
    Object.assign(rope, attentionFactor(stated, rope, rules))
    if (Object.keys(rope).length) fields[name] = rope
  }
  return fields
}

/** @param {Fields} stated vLLM's keys @param {Fields} rope @param {Rules} rules @returns {Fields} */
const attentionFactor = (stated, rope, { sentences }) => {
  const { attn_factor: multiplier = 1, apply_yarn_scaling: grows = true, extrapolation_factor: factor = 1 } = stated
  const keys = Object.keys(stated)
  if (factor !== 1) throw new Error(filled(sentences.EXTRAPOLATION, { factor }))
  if (keys.length && "attention_factor" in rope)
    throw new Error(filled(sentences.TWO_FACTORS, { keys: keys.join(", ") }))
  if (!("attn_factor" in stated || "apply_yarn_scaling" in stated)) return {}
  return { attention_factor: multiplier * (grows ? 0.1 * Math.log(Math.max(rope.factor || 1, 1)) + 1 : 1) }
}
