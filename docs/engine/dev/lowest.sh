#!/bin/sh
# Run the package's tests on the oldest NumPy and PyTorch that pyproject.toml allows, in .lowest: sh docs/engine/dev/lowest.sh python3
set -e
"$1" -m venv .lowest
oldest=$(sed -n 's/^dependencies = //p' pyproject.toml | tr -d '[],"' | sed 's/>=/==/g')
.lowest/bin/pip install --quiet -e ".[test]" $oldest
.lowest/bin/python -m pytest -n logical --dist worksteal \
  -o addopts="--doctest-modules --strict-markers --import-mode=importlib -m 'not slow and not full'" \
  posenc docs/book tests/contract tests/add tests/rotate tests/bias tests/score tests/models tests/fast tests/in_models \
  tests/config tests/doctor tests/book tests/test_*.py
