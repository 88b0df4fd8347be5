#!/usr/bin/env bash
# Write the branch notebooks anew: each page that runs as a notebook, for Colab to open.
set -euo pipefail

rm -rf .branch
python -m galley --notebooks .branch
git -C .branch init --quiet --initial-branch notebooks
git -C .branch add --all
git -C .branch -c user.name="$(git config user.name)" -c user.email="$(git config user.email)" \
  commit --quiet --message "Write the notebooks of $(git rev-parse --short HEAD)"
git -C .branch push --force "$(git remote get-url origin)" notebooks # one commit: its past can be made again
rm -rf .branch
