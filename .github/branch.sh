#!/usr/bin/env bash
# Write the branch notebooks anew: the book as GitHub shows it, and as notebooks that Colab opens.
set -euo pipefail

rm -rf .branch
python -m galley --branch .branch
git -C .branch init --quiet --initial-branch notebooks
git -C .branch add --all
git -C .branch -c user.name="$(git config user.name)" -c user.email="$(git config user.email)" \
  commit --quiet --message "Draw the book of $(git rev-parse --short HEAD)"
git -C .branch push --force "$(git remote get-url origin)" notebooks # one commit: its past can be made again
rm -rf .branch
