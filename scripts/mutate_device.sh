#!/usr/bin/env bash
# Shows that the tests of tests/device find what they are meant to find: puts a wait and a tensor of another device into a run, a step of a
# generation and a sweep, one after another, builds, and expects the named test to fail. Sources are restored, also if it is stopped.
# Each takes the compilation of a source and a link. Usage: scripts/mutate_device.sh [PRESET] [NAME ...]
set -euo pipefail
cd "$(dirname "$0")/.."

preset=release
if [[ -d build/${1:-} && -n ${1:-} ]]; then
  preset=$1
  shift
fi
tests=build/$preset/tests/device_tests

host='at::TensorOptions(at::kCPU)'
# name | source | the line that it is put after | what | the test that fails
mutations=(
  "wait_in_run|models/transformer/block.cc|at::Tensor Block::forward(at::Tensor resid, const StackInputs& stack, Run& run) const {|if (!resid.device().is_cpu()) static_cast<void>(resid.sum().item<double>());|Models/WithoutWaits.ARunCanBeRecorded/0"
  "mixed_in_run|models/transformer/block.cc|at::Tensor Block::forward(at::Tensor resid, const StackInputs& stack, Run& run) const {|resid = resid + resid.new_zeros({1}, $host);|Golden/OnTheDevice.Runs/gpt2"
  "wait_in_step|src/engine/column_runs.cc|if (keys.defined()) run.watch.put_keys(given[2]);|static_cast<void>(given[1].item<std::int64_t>());|Models/Steps.WaitForWhatWasPickedAndForNothingElse/0"
  "mixed_in_step|src/engine/column_runs.cc|if (keys.defined()) run.watch.put_keys(given[2]);|static_cast<void>(given[1] + given[1].new_zeros({1}, $host));|Golden/RecordedSteps.EqualKernelByKernel/gpt2"
  "wait_in_sweep|src/analysis/runs/patched_runs.cc|RunOptions options = group.layer ? options_from({*group.layer, *group.layer}) : options_.run;|static_cast<void>(unpatched_.logits().sum().item<double>());|RecordedSweep.WaitsForScoresAlone"
  "mixed_in_sweep|src/analysis/runs/patched_runs.cc|RunOptions options = group.layer ? options_from({*group.layer, *group.layer}) : options_.run;|static_cast<void>(unpatched_.logits() + unpatched_.logits().new_zeros({1}, $host));|Models/RecordedSweeps.AreReplayed/0"
)

changed=""
restore() {
  [[ -z $changed ]] || mv "$changed.unchanged" "$changed"
  changed=""
}
trap restore EXIT

build() { cmake --build --preset "$preset" --target device_tests > "build/$preset/mutation.log" 2>&1; }
run() { OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" "$tests" --gtest_brief=1 --gtest_filter="$1"; }

missed=0
for mutation in "${mutations[@]}"; do
  IFS='|' read -r name source behind what test <<< "$mutation"
  [[ $# -eq 0 || " $* " == *" $name "* ]] || continue
  build
  run "$test" > /dev/null || { echo "$name: $test fails without it"; exit 1; }
  if [[ $(grep -cF -- "$behind" "$source") != 1 ]]; then
    echo "$name: expected one line '$behind' in $source; fix the table in $0"
    exit 1
  fi
  cp "$source" "$source.unchanged"
  changed=$source
  BEHIND=$behind WHAT=$what awk '{ print } index($0, ENVIRON["BEHIND"]) { print ENVIRON["WHAT"] }' "$source.unchanged" > "$source"
  build || { cat "build/$preset/mutation.log"; exit 1; }
  if output=$(run "$test" 2>&1) || [[ $output != *"[  FAILED  ] $test"* ]]; then
    echo "$name: NOT FOUND by $test"
    missed=1
  else
    echo "$name: found by $test"
  fi
  restore
  touch "$source"
done
build
exit $missed
