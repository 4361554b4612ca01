# What the scripts of this folder share; each is called with KFUSE MODELS and ends with `finish`.
kfuse=$1 models=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export KFUSE_STORE=$work/store.db NO_COLOR=1
passed=0 failed=0 skipped=0

check() { # check NAME COMMAND...
  local name=$1
  shift
  if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED: $name" >&2; fi
}

skip() { # skip WHAT WHY
  skipped=$((skipped + 1))
  echo "skipped: $1: $2"
}

finish() { # 77, by which ctest counts a test as skipped, where all of it was.
  echo "$passed passed, $failed failed, $skipped skipped"
  [ "$failed" = 0 ] || return 1
  [ "$passed" -gt 0 ] || [ "$skipped" = 0 ] || return 77
}

# An error is one line on stderr, nothing on stdout, and this exit status.
fails() { # fails STATUS TEXT ARGUMENTS...
  local status=$1 text=$2 got
  shift 2
  "$kfuse" "$@" >"$work/out" 2>"$work/err"
  got=$?
  [ "$got" = "$status" ] && [ ! -s "$work/out" ] && [ "$(wc -l <"$work/err")" = 1 ] && grep -q -- "$text" "$work/err" && return 0
  echo "kfuse $*: status $got, expected $status; stderr:" >&2
  head -5 "$work/err" >&2
  return 1
}

# The work is done and the table printed, but one line on stderr says what is amiss.
warns() { # warns STATUS TEXT COMMAND...
  local status=$1 text=$2 got
  shift 2
  "$@" >"$work/out" 2>"$work/err"
  got=$?
  [ "$got" = "$status" ] && grep -q "arena" "$work/out" && [ "$(wc -l <"$work/err")" = 1 ] && grep -q -- "$text" "$work/err" && return 0
  echo "$*: status $got, expected $status; stderr:" >&2
  head -5 "$work/err" >&2
  return 1
}

within_100_columns() { # within_100_columns ARGUMENTS...
  "$kfuse" "$@" | awk 'length > 100 { print "too wide: " $0; bad = 1 } END { exit bad }'
}
