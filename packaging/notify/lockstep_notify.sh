# Shared by the programs for --on-verdict: options, the verdict's variables, JSON, curl, and the record of what was done.
# Names in a verdict come from the job and are untrusted. Each is used only as one quoted word or JSON text, and only if it has the expected form.
set -fu
umask 077
export LC_ALL=C
IFS=' '
program=${0##*/}
newline='
'

say() { printf 'lockstep %s: %s\n' "$program" "$(printf '%.600s' "$*" | tr '\000-\037\177' ' ')" >&2; }
wrong() { say "$1 (--help lists the options)"; exit 2; }
failed() { say "$1"; exit 1; }  # Lockstep starts the program again.
refused() { say "$1"; exit 0; } # Does nothing, because trying again would not help.

# A row of $options: --NAME|VALUE|DEFAULT|HELP. VALUE: none for a switch, N for a number, P for 0 to 1, words separated by commas, or any other word
# for a text. If "..." follows, the option may be repeated.
row() { # NAME
  while IFS='|' read -r name value default help; do [ "$name" != "$1" ] || return 0; done <<ROWS
$options
ROWS
  wrong "unexpected argument: $1"
}

usage() {
  printf 'usage: notify/%s [OPTIONS]   (for --on-verdict)\n%s\n\n' "$program" "$about"
  while IFS='|' read -r name value default help; do printf '  %-26s%s\n' "$name $value" "$help${default:+ ($default)}"; done <<ROWS
$options
ROWS
}

# options "$@": sets $opt_NAME for each row.
options() {
  state=${STATE_DIRECTORY:-${HOME-}/.local/state/lockstep}
  options="--seconds|N|20|longest time for one request or command$newline$options"
  [ -z "${acts-}" ] || options="$options
--do|||act; without it the program logs what it would do
--least-confidence|P|0.9|act on verdicts that are at least this sure
--most-nodes|N|2|take at most this many nodes from service in 24 hours
--state|DIR|${state%%:*}/notify|keep the record of what was done there"
  while IFS='|' read -r name value default help; do eval "opt_$(printf %s "${name#--}" | tr - _)=\$default"; done <<ROWS
$options
ROWS
  while [ $# -gt 0 ]; do
    case $1 in --help) usage && exit ;; --*=*) name=${1%%=*} given=${1#*=} && shift && set -- "$name" "$given" "$@" ;; esac
    row "$1"
    given=yes variable=opt_$(printf %s "${name#--}" | tr - _)
    if [ -n "$value" ]; then
      [ $# -gt 1 ] || wrong "$1 needs a value"
      given=$2 && shift
    fi
    shift
    case $given in *[[:cntrl:]]*) wrong "$name has a control character" ;; esac
    case $value in
      N) case $given in '' | *[!0-9]* | ??????*) wrong "$name needs a number" ;; esac ;;
      P) case $given in 0 | 1 | 0.[0-9] | 0.[0-9][0-9] | 0.[0-9][0-9][0-9] | 1.0) ;; *) wrong "$name needs a number from 0 to 1" ;; esac ;;
      *,*) case ,$value, in *",$given,"*) ;; *) wrong "$name is one of $value" ;; esac ;;
      *...) eval "given=\${$variable:+\$$variable\$newline}\$given" ;;
    esac
    eval "$variable=\$given"
  done
}

# json MOST TEXT: prints a JSON string of ASCII. Replaces invalid UTF-8 by U+FFFD, and cuts longer text.
json() {
  printf %s "$2" | od -An -v -tu1 | awk -v most="$1" '
    function put(c) {
      if (++count > most - 3) { if (count == most - 2) printf "..."; return }
      if (c > 65535) printf "\\u%04x\\u%04x", 55296 + int((c - 65536) / 1024), 56320 + c % 1024
      else printf((c < 32 || c > 126 || c == 34 || c == 92) ? "\\u%04x" : "%c", c)
    }
    BEGIN { printf "\"" }
    { for (i = 1; i <= NF; i++) {
        b = $i + 0
        if (left && b >= low && b <= high) {
          c = c * 64 + b - 128; low = 128; high = 191
          if (!--left) put(c)
          continue
        }
        if (left) { left = 0; put(65533) }
        if (b < 128) put(b)
        else if (b < 194 || b > 244) put(65533)
        else {
          left = 1 + (b > 223) + (b > 239); c = b - (left == 1 ? 192 : left == 2 ? 224 : 240)
          low = b == 224 ? 160 : b == 240 ? 144 : 128; high = b == 237 ? 159 : b == 244 ? 143 : 191
        } } }
    END { if (left) put(65533); printf "\"" }'
}

joined() { printf %s "$1" | cut -d ' ' -f "1-$2" | sed 's/ /, /g'; } # WORDS MOST

# The facts that Lockstep passes (docs/options.md), as $kind, $job and so on.
verdict() {
  kind=${LOCKSTEP_VERDICT-} finding=${LOCKSTEP_VERDICT_FINDING-} job=${LOCKSTEP_VERDICT_JOB-} job_id=${LOCKSTEP_VERDICT_JOB_ID-}
  action=${LOCKSTEP_VERDICT_ACTION-} confidence=${LOCKSTEP_VERDICT_CONFIDENCE-} why=${LOCKSTEP_VERDICT_WHY-} ranks=${LOCKSTEP_VERDICT_RANKS-}
  incident=${LOCKSTEP_INCIDENT-} hosts=${LOCKSTEP_VERDICT_HOSTS-} strange=${LOCKSTEP_VERDICT_HOSTS_LEFT_OUT:-0}
  no_verdict="the environment has no verdict of lockstep: --on-verdict starts this program"
  for host in $hosts; do
    case $host in [!A-Za-z0-9]* | *[!A-Za-z0-9._-]*) refused "$no_verdict" ;; esac
    [ ${#host} -le 253 ] || refused "$no_verdict"
  done
  case $confidence in [01].[0-9][0-9][0-9][0-9]) ;; *) refused "$no_verdict" ;; esac
  case $kind in '' | *[!A-Z_]*) refused "$no_verdict" ;; esac
  case $finding$ranks in *[!A-Z_0-9\ ]*) refused "$no_verdict" ;; esac
  case $action in
    wait) recommendation=wait ;;
    ask) recommendation="a person must decide" ;;
    requeue) recommendation="start the job again" ;;
    exclude) recommendation="start the job again without $(joined "$hosts" 8)" ;;
    *) refused "$no_verdict" ;;
  esac
  subject=$kind${job:+: job $job}
  text=$subject$newline${why:+$why$newline}"Recommended: $recommendation (confidence ${confidence%??})."${incident:+${newline}Incident: $incident}
  # Stays the same if Lockstep starts the program again for the same verdict.
  id=$(printf '%s\n' "$kind" "$job" "$action" "$hosts" "$ranks" "$confidence" "$why" "$incident" | sha256sum | cut -c 1-16)
}

hosts_json() { printf '[%s]' "$(printf %s "$1" | sed 's/[^ ][^ ]*/"&"/g; s/ /, /g')"; }

recommended() {
  printf '{"action": "%s", "hosts": %s, "ranks": [%s], "why": %s, "confidence": %s}' "$action" "$(hosts_json "$hosts")" "$(joined "$ranks" 256)" \
    "$(json 2000 "$why")" "$confidence"
}

# Sets $secret to the first line of a file. Secrets come from files, so that they appear on no command line.
secret() { # FILE WHAT
  secret=$(head -n 1 -- "$1" | tr -d '[:space:]')
  [ -n "$secret" ] || failed "$1 holds no $2"
}

post() { # URL BODY: JSON, whose line breaks are between words
  case $1 in *[!!-~]* | *[\"\\]*) refused "the address has a character that no address has" ;; http://* | https://*) ;; *)
    refused "the address must begin with http:// or https://" ;;
  esac
  answer=$(printf 'url = "%s"\ndata = "%s"\n' "$1" "$(printf %s "$2" | tr '\n' ' ' | sed 's/[\\"]/\\&/g')" |
    curl -q --config - --globoff --proto '=http,https' --max-time "$opt_seconds" --silent --show-error --header 'Content-Type: application/json' \
      --output /dev/null --write-out '%{http_code}') || failed "the server was not reached"
  case $answer in 2??) ;; *) failed "the server answered $answer" ;; esac
}

# Runs a command of the site within the time limit. If it fails, exits with status 1.
run() { timeout "$opt_seconds" "$@" || { echo "$1 exited with status $?" >&2; exit 1; }; }

# actions.jsonl has a line for each action that was done, tried or refused.
write() { # STATE WHAT
  record=$opt_state/actions.jsonl
  mkdir -p -- "$opt_state" &&
    printf '{"time": %s, "at": "%s", "program": "%s", "verdict": "%s", "job": %s, "state": "%s", "what": %s, "nodes": %s, "restart": %s}\n' \
    "$(date +%s)" "$(date -u +%Y-%m-%dT%H:%M:%S+00:00)" "$program" "$id" "$(json 300 "$job")" "$1" "$(json 1000 "$2")" "$(hosts_json "$nodes")" \
    "$restart" >>"$record" && sync "$record" || failed "the record in $opt_state cannot be written"
  say "$1: $2"
}

# Counts the record's last 24 hours: $taken nodes, how many of $nodes are not among them ($fresh), and $restarts of the job for other verdicts. With
# "begun", counts only up to the last "begun" of this verdict. Texts in the record contain no quotes.
count() { # [begun]
  counted=$(cat "$opt_state/actions.jsonl" 2>/dev/null | begun=${1-} job=$(json 300 "$job") nodes=$nodes awk -F '"' \
    -v since=$(($(date +%s) - 86400)) -v verdict="$id" '
    function counts(fresh) {
      for (i = split(ENVIRON["nodes"], node, " "); i > 0; i--) fresh += !(node[i] in taken)
      said = count + 0 " " fresh + 0 " " restarts + 0
    }
    $22 == "begun" && $14 == verdict { counts() }
    substr($3, 2) + 0 >= since && ($22 == "begun" || $22 == "done") {
      for (i = 30; i < NF - 1; i += 2) if (!($i in taken)) { taken[$i]; count++ }
      if ($NF ~ /true/ && "\"" $18 "\"" == ENVIRON["job"] && $14 != verdict && !other[$14]++) restarts++
    }
    END { if (ENVIRON["begun"] == "") counts(); print said }')
  [ -n "$counted" ] || failed "the record in $opt_state cannot be read"
  restarts=${counted##* } taken=${counted%% *} fresh=${counted#* } && fresh=${fresh% *}
}

too_many() {
  too_many="$taken nodes were taken in the last 24 hours, and --most-nodes is $opt_most_nodes"
  [ "$fresh" -gt 0 ] && [ $((taken + fresh)) -gt "$opt_most_nodes" ]
}

# act WHAT COMMAND: runs the command if that is allowed. Records what was done, or would have been.
act() {
  count
  why_not=
  if ! awk -v sure="$confidence" -v least="$opt_least_confidence" 'BEGIN { exit !(sure + 0 >= least + 0) }'; then
    why_not="the verdict's confidence is ${confidence%??}, below --least-confidence $opt_least_confidence"
  elif [ "$strange" != 0 ]; then
    why_not="a host of the verdict has a name that no node can have"
  elif too_many; then
    why_not=$too_many
  fi
  if [ -n "$why_not" ]; then
    write refused "$1: $why_not"
  elif [ -z "$opt_do" ]; then
    write "dry run" "would $1 (--do is not given)"
  else
    write begun "$1" # Counted before the action, so that a program that is killed during it has used its share.
    count begun      # Another program may have begun at the same time. Their order in the record decides.
    if too_many; then write refused "$1: $too_many"; exit; fi
    said=$("$2" 2>&1) || { write failed "$1: $said"; exit 1; }
    write done "$1"
  fi
}
