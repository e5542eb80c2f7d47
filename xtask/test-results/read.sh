# shellcheck shell=bash
# Reads the results of a binary's tests from a file that only libtest writes.
#
# On standard output a test may print into the middle of libtest's line. The file of --logfile has
# only lines of libtest, an entry for each test that ended:
#
#   ok NAME
#   failed NAME
#   failed: WHY NAME      a test that should panic; WHY goes on in lines that begin with a space
#   ignored NAME
#   ignored: WHY NAME
#
# try.sh is the test of this file.

# read_results BINARY TESTS LOG prints a line for each test: its result (passed, failed or ignored)
# and BINARY::NAME. TESTS has the names of the tests that had to run. A line of LOG that cannot be
# read, or a test without a result, is named on standard error and makes read_results fail.
read_results() {
    awk -v binary="$1" '
        function wrong(what) {
            print what >"/dev/stderr"
            status = 1
        }
        function unreadable(number, line) {
            wrong(FILENAME ":" number ": not the result of a test that is still to end: " line)
        }
        function result(what) {
            if (!($NF in unfinished)) return unreadable(FNR, $0)
            delete unfinished[$NF]
            print what " " binary "::" $NF
        }
        FILENAME == ARGV[1] {
            unfinished[$0]
            names[++count] = $0
            next
        }
        goes_on && !/^ / {
            unreadable(FNR - 1, "a reason without a test")
            goes_on = 0
        }
        goes_on || /^failed: / {
            goes_on = !($NF in unfinished)
            if (!goes_on) result("failed")
            next
        }
        /^ok [^ ]+$/ {result("passed"); next}
        /^failed [^ ]+$/ {result("failed"); next}
        /^ignored [^ ]+$/ || /^ignored: .* [^ ]+$/ {result("ignored"); next}
        {unreadable(FNR, $0)}
        END {
            if (goes_on) unreadable(FNR, "a reason without a test")
            for (i = 1; i <= count; i++) {
                if (!(names[i] in unfinished)) continue
                # The first few tell where the run ended.
                if (++lacking <= 10) wrong(ARGV[2] ": no result of " names[i])
            }
            if (lacking > 10) wrong(ARGV[2] ": no result of " lacking - 10 " tests more")
            exit status
        }
    ' "$2" "$3"
}

# count_results WHAT FILE... prints how many lines that read_results printed begin with WHAT.
count_results() {
    local what=$1
    shift
    cat -- "$@" | awk -v what="$what" '$1 == what {n++} END {print n + 0}'
}

# read_counts FILE prints how many documentation tests passed, failed and were ignored. They have
# standard output only: each crate would begin the file of --logfile anew. But each of these tests
# is a process whose output is captured, so nothing falls between the lines of libtest. It fails if
# the counts do not add up to the number of tests that had to run.
read_counts() {
    awk '
        /^running [0-9]+ tests?$/ {to_run += $2}
        /^test result: (ok|FAILED)\. [0-9]+ passed; [0-9]+ failed; [0-9]+ ignored; / {
            passed += $4
            failed += $6
            ignored += $8
        }
        END {
            print passed + 0, failed + 0, ignored + 0
            ended = passed + failed + ignored
            if (ended == to_run) exit 0
            print FILENAME ": " to_run + 0 " tests were to run, and " ended " have a result" >"/dev/stderr"
            exit 1
        }
    ' "$1"
}
