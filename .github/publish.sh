#!/usr/bin/env bash
# Put a version of the site beside the others, on the branch gh-pages: .github/publish.sh dev, or .github/publish.sh 0.1
set -euo pipefail
version=$1

git fetch --quiet --depth 1 origin gh-pages:refs/remotes/origin/gh-pages || echo "There is no version yet."
aliases=()
if [[ $version != dev ]] || ! mike list latest >/dev/null 2>&1; then
  aliases=(latest) # before the first release, what is being written
fi
python -m galley # what is wrong with a page stops here: mike's own build is not strict
mike deploy --update-aliases "$version" "${aliases[@]}"

git worktree add --quiet --force .pages gh-pages
python -m galley.around.versions .pages
git -C .pages add --all
git -C .pages diff --cached --quiet || git -C .pages commit --quiet --message "Lead addresses without a version to the latest"
git push origin gh-pages
git worktree remove --force .pages
