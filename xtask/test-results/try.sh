#!/usr/bin/env bash
# Tests read.sh: on a program whose tests print in the middle of libtest's lines, fifty times while
# all cores are busy, and on logs that cannot be read.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
# shellcheck source=xtask/test-results/read.sh
source ./read.sh

scratch=$(mktemp -d)
busy=()
stop_load() {
    # Each process of the load would also end by itself.
    if ((${#busy[@]})); then kill "${busy[@]}" 2>/dev/null || true; fi
    busy=()
}
trap 'stop_load; rm -rf "$scratch"' EXIT

fail() {
    echo "test results are not read as they should be: $1" >&2
    exit 1
}

rustc --edition 2024 --test noisy.rs -o "$scratch/noisy"
cd "$scratch"
expected=$(sort <<'RESULTS'
passed noisy::outer::inner::a
passed noisy::outer::inner::b
passed noisy::outer::inner::c
passed noisy::outer::inner::d
passed noisy::outer::inner::e
passed noisy::outer::inner::f
passed noisy::outer::inner::g
passed noisy::outer::inner::h
passed noisy::outer::should_panic
failed noisy::outer::fails
failed noisy::outer::should_panic_and_does_not
failed noisy::outer::should_panic_of_something_else
ignored noisy::outer::ignored
ignored noisy::outer::ignored_for_a_reason
RESULTS
)

for ((core = $(nproc); core > 0; core--)); do
    timeout 60 bash -c 'while :; do :; done' &
    busy+=($!)
done
./noisy --list --format terse | sed -n 's/: test$//p' >tests
for ((run = 1; run <= 50; run++)); do
    RUST_BACKTRACE=0 ./noisy --test-threads=4 --logfile log >stdout 2>stderr && fail "a test failed, and the program did not"
    results=$(read_results noisy tests log | sort) || fail "the log of run $run"
    [ "$results" = "$expected" ] || fail "run $run: $results"
done
stop_load
echo "$results" >results
counts="$(count_results passed results) $(count_results failed results) $(count_results ignored results)"
[ "$counts" = "9 3 2" ] || fail "the counts are $counts"

# A log that cannot be read fails, and its fault is named.
refused() {
    local what=$1
    if read_results noisy tests bad >results 2>said; then fail "nothing is wrong with $what"; fi
    grep -qxF "$2" said || fail "of $what it said: $(cat said)"
}
unread="not the result of a test that is still to end"
sed '3i gibberish' log >bad
refused "an unreadable line" "bad:3: $unread: gibberish"
sed '3i failed: gibberish' log >bad
refused "a failure of no test" "bad:3: $unread: a reason without a test"
{ cat log; echo "failed: gibberish"; } >bad
refused "a failure of no test at the end" "bad:$(wc -l <bad): $unread: a reason without a test"
sed '1s/.*/ok outer::inner::never_run/' log >bad
refused "a test that was not to run" "bad:1: $unread: ok outer::inner::never_run"
sed '1{p;p}' log >bad
refused "a result twice" "bad:2: $unread: $(head -n 1 log)"
grep -v "::c$" log >bad
refused "a log that lacks a test" "bad: no result of outer::inner::c"
head -c -3 log >bad
refused "a truncated log" "bad: no result of $(tail -n 1 log | sed 's/.* //')"
: >bad
refused "an empty log" "bad: no result of outer::inner::a"
rm bad
if read_results noisy tests bad >results 2>/dev/null; then fail "nothing is wrong with a log that is not there"; fi

# The results of documentation tests are read from their output.
result() { echo "test result: $1. $2 passed; $3 failed; $4 ignored; 0 measured; 0 filtered out; finished in 0.01s"; }
{ echo "running 3 tests"; result ok 3 0 0; echo "running 1 test"; result FAILED 0 1 0; } >stdout
[ "$(read_counts stdout)" = "3 1 0" ] || fail "the counts of documentation tests"
{ echo "running 3 tests"; result ok 3 0 0; echo "running 2 tests"; } >stdout
if read_counts stdout >counts 2>said; then fail "nothing is wrong with documentation tests that did not end"; fi
grep -qxF "stdout: 5 tests were to run, and 3 have a result" said || fail "it said: $(cat said)"
