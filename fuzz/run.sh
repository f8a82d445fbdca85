#!/usr/bin/env bash
# fuzz/run.sh [SECONDS] [TARGET...]: build the fuzz targets, then run each for so long.
#
# Kept regressions are tried first. Fails on any crash, on an input that takes more than 10 seconds or
# 2 GiB, and leaves the input in fuzz/artifacts. Stable Rust, a C++ compiler and bash are all it needs.
set -euo pipefail
cd "$(dirname "$0")"

seconds=${1:-${FUZZ_SECONDS:-20}}
shift || true
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  targets=(load parts pattern encode decode stream)
fi

# What `cargo fuzz` passes to a nightly compiler, as far as the stable one knows it. Naming the target
# keeps the flags away from build scripts.
host=$(rustc -vV | sed -n 's/^host: //p')
export RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module\
 -Cllvm-args=-sanitizer-coverage-level=4\
 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters\
 -Cllvm-args=-sanitizer-coverage-pc-table"
cargo build --release --locked --bins --target "$host"
built=${CARGO_TARGET_DIR:-target}/$host/release

# What went wrong: the panic, or what libFuzzer says of time and memory.
report() {
  grep -A 3 -e 'panicked at' -e '^==[0-9]*==' -e '^SUMMARY' "$1" | head -n 30 || tail -n 30 "$1"
}

failed=()
for target in "${targets[@]}"; do
  mkdir -p "corpus/$target" "artifacts/$target"
  log=artifacts/$target.log
  options=(-timeout=10 -rss_limit_mb=2048 "-artifact_prefix=artifacts/$target/")
  if [ -f "dictionaries/$target.dict" ]; then
    options+=("-dict=dictionaries/$target.dict")
  fi
  shopt -s nullglob
  kept=("regressions/$target"/*)
  shopt -u nullglob
  began=$SECONDS
  if [ ${#kept[@]} -gt 0 ] && ! "$built/$target" "${options[@]}" "${kept[@]}" >"$log" 2>&1; then
    report "$log"
    echo "$target: FAILED on a kept regression; all of its output is in fuzz/$log"
    failed+=("$target")
    continue
  fi
  if "$built/$target" "${options[@]}" "-max_total_time=$seconds" -print_final_stats=1 \
    "corpus/$target" "seeds/$target" >"$log" 2>&1; then
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    coverage=$(sed -n 's/.* cov: \([0-9]*\) ft: \([0-9]*\) .*/\1 edges, \2 features/p' "$log" | tail -n 1)
    echo "$target: ok, $runs inputs in $((SECONDS - began)) s, $coverage, ${#kept[@]} regressions"
  else
    report "$log"
    echo "$target: FAILED after $((SECONDS - began)) s; the input is in fuzz/artifacts/$target"
    failed+=("$target")
  fi
done
[ ${#failed[@]} -eq 0 ]
