#!/bin/sh
# Make an environment, and install into it what the book and its tests need; where that fails, say what to do. Run by
# make: sh docs/engine/dev/install.sh python3 .venv
python=$1
environment=$2
oldest=$(sed -n 's/^requires-python = ">=\(3\.[0-9]*\).*/\1/p' pyproject.toml)

fail() {
  echo "$@" >&2
  exit 1
}

version() { # 3.12, or nothing of a Python that does not start
  "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null
}

is_older() { # is_older 3.9 3.11
  [ $((${1%.*} * 100 + ${1#*.})) -lt $((${2%.*} * 100 + ${2#*.})) ]
}

has_pip() {
  $environment/bin/pip --version >/dev/null 2>&1
}

make_environment() {
  found=$(version "$python") || fail "$python does not start here. Install Python $oldest or later from" \
    "https://www.python.org/downloads/, or name one that you have: make serve PYTHON=python3.12"
  is_older "$found" "$oldest" && fail "$python is Python $found, and posenc needs $oldest or later." \
    "If you have one, name it: make serve PYTHON=python3.12; if not, https://www.python.org/downloads/ has it."
  "$python" -c 'import venv; from ensurepip import version' 2>/dev/null || fail "This Python cannot make virtual environments." \
    "On Debian and Ubuntu install what is missing, sudo apt install python$found-venv, and run make again."
  "$python" -m venv --clear $environment || fail "$python could not make $environment, for the reason above."
}

explain() { # what pip has written is in $environment/pip.log
  cat $environment/pip.log >&2
  if grep -q "No space left" $environment/pip.log; then
    fail "The disk is full: $environment takes up to 6 GB. Make room and run make again; what is installed stays."
  # The first that pip looks for is hatchling, which every index has.
  elif grep -qE "after connection broken|timed out|hatchling.*from versions: none" $environment/pip.log; then
    fail "pip does not reach its package index. Check the network, and HTTPS_PROXY and PIP_INDEX_URL if you use" \
      "them, and run make again; what is installed stays."
  fi
  fail "pip could not install what posenc needs, for the reason above. README.md has the versions that are supported;" \
    "this is Python $(version $environment/bin/python). Mend that and run make again; rm -r $environment starts from" \
    "nothing."
}

found=$(version $environment/bin/python)
if [ -n "$found" ] && is_older "$found" "$oldest"; then
  fail "$environment is of Python $found, and posenc needs $oldest or later." \
    "Remove it, rm -r $environment, and run make again."
fi
has_pip || $environment/bin/python -m ensurepip --default-pip >/dev/null 2>&1 # as uv makes them
has_pip || make_environment
echo "Installing what pyproject.toml lists into $environment. The first time it downloads PyTorch, which takes minutes."
$environment/bin/pip install --quiet -e ".[docs,test]" -c constraints.txt 2>$environment/pip.log || explain
