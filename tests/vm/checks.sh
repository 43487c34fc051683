#!/bin/busybox sh
# What a user of vitrine does, on a machine of its own: each check runs a command, wants its exit code and
# something in what it printed, and shows both when they are not so. A table at the end; exit code 1 when a
# check failed.
here=/vitrine
. $here/network_files.sh
failed=0
passed=0
table=/tmp/table
: >$table

tell() { # tell VERDICT NAME
  printf '%-6s %s\n' "$1" "$2" >>$table
  printf '%s: %s\n' "$1" "$2"
}

# check_code CODE NAME WANTED… -- COMMAND…: this exit code, and lines that match each of these (extended
# regular expressions; with ! before it: no such line).
check_code() {
  wanted_code=$1
  name=$2
  shift 2
  : >/tmp/wanted
  while [ "$1" != -- ]; do
    printf '%s\n' "$1" >>/tmp/wanted
    shift
  done
  shift
  timeout 120 "$@" >/tmp/said 2>&1 </dev/null
  code=$?
  verdict=ok
  [ $code = $wanted_code ] || verdict=FAILED
  while read -r wanted; do
    case $wanted in
      !*) grep -qE "${wanted#!}" /tmp/said && verdict=FAILED && echo "there is: ${wanted#!}" ;;
      *) grep -qE "$wanted" /tmp/said || { verdict=FAILED && echo "missing: $wanted"; } ;;
    esac
  done </tmp/wanted
  [ $verdict = ok ] && passed=$((passed + 1)) || failed=$((failed + 1))
  if [ $verdict != ok ] || [ -n "$VERBOSE" ]; then
    echo "\$ $*   (exit code $code)"
    head -c 4000 /tmp/said
  fi
  tell $verdict "$name"
}

# check NAME WANTED… -- COMMAND…: the same, with exit code 0.
check() { check_code 0 "$@"; }

# wait_for_line FILE: until it has one, half a minute at most.
wait_for_line() {
  for _ in $(seq 60); do
    [ -s "$1" ] && return 0
    sleep 0.5
  done
  echo "nothing came into $1"
  return 1
}

echo "machine: $(uname -srm), $(grep -c ^processor /proc/cpuinfo) processors"
vitrine doctor
mkfifo /tmp/orders
$here/vitrine-demo-service >/tmp/demo.out 2>&1 &
demo=$!
$here/dof_subject </tmp/orders >/tmp/dof.out 2>&1 &
dof=$!
exec 3>/tmp/orders
wait_for_line /tmp/demo.out
wait_for_line /tmp/dof.out

one_label='(tenant=(acme|globex|initech))'
check "doctor: all modes work" \
  'snapshot +proves by the task iterator' 'ebpf +sees running threads' 'ptrace +stops each thread' \
  'on CPU +stacks and labels' 'off CPU +stacks and labels' 'kernel symbols' \
  -- vitrine doctor
check "ps: both publishers" "^$demo .*shop .*custom-labels-v1, otel-thread-ctx-v1" "^$dof .*custom-labels-v1" -- vitrine ps
check "context: resource and key map" 'service.name +shop' 'deployment.environment.name +demo' \
  'threadlocal.attribute_key_map +\["tenant","route","step"\]' -- vitrine context $demo

for mode in snapshot ptrace; do
  check "labels of all threads, $mode" 'custom-labels-v1, otel-thread-ctx-v1' "worker-[0-7].*$one_label.*trace=[0-9a-f]{32}" \
    -- vitrine labels $demo --mode $mode
done
check "labels of running threads, ebpf" 'custom-labels-v1' "worker-[0-7] +sampled .*$one_label" \
  -- vitrine labels $demo --mode ebpf --duration 5s
check "labels from a library (TLS descriptor), snapshot" 'libcustomlabels' 'tenant=acme' -- vitrine labels $dof
check "labels from a library (TLS descriptor), ptrace" 'libcustomlabels' 'tenant=acme' -- vitrine labels $dof --mode ptrace
check "labels as JSON: two formats" '"format":"custom-labels-v1".*"key":"tenant"' \
  '"format":"otel-thread-ctx-v1".*"key":"tenant"' -- vitrine labels $demo --json

check "probes of a file, typed" 'shop:order +1 +yes +id: uint64, item: string, price: double' \
  -- vitrine probes $here/vitrine-demo-service 'shop:*'
check "probes of a file with a DOF" 'shop.*:sold' 'shop.*:plain' -- vitrine probes $here/dof_subject
check "trace of a process: arguments, labels, trace id" \
  "shop:order\(id=[0-9]+, item=\"[a-z]+.*\", price=[0-9.]+\).*step=charge-card $one_label.*trace=[0-9a-f]{32}" \
  -- vitrine trace $demo shop:order --limit 5 --duration 30s
check "trace with a condition the kernel tests" 'item="(kettle|teapot)", price=[0-9.]+\).*tenant=acme' '!tenant=globex' \
  -- vitrine trace $demo shop:order --where 'price > 20 and tenant == acme' --show 'item, price' --limit 3 --duration 60s
check "trace: sums by tenant" 'acme +[0-9]+' 'globex +[0-9]+' -- vitrine trace $demo shop:order --sum price --by tenant --duration 5s
check "trace: latency by tenant" 'acme +[0-9]+ +[0-9.]+ms' \
  -- vitrine trace $demo --latency shop:request_start,shop:request_end --match id --by tenant --duration 5s
check "trace: the stack of a fire" '\(anonymous namespace\)::pay' -- vitrine trace $demo shop:order --stack --limit 2 --duration 30s
check "trace of a file, in every process" 'shop:request_end\(id=[0-9]+, status=(ok|declined)\).*trace=' \
  -- vitrine trace $here/vitrine-demo-service shop:request_end --limit 40 --duration 30s
check "trace of a command, from its start" 'shop:request_start\(id=1, path="/[a-z]+"\).*tenant=' \
  -- vitrine trace shop:request_start --limit 40 --duration 30s --exec -- $here/vitrine-demo-service --seconds 10

# A DOF provider, which fires when it is told to: until the trace has seen some.
while sleep 1; do echo 'fire 2' >&3; done &
orders=$!
check "trace of a DOF provider: nine arguments, labels" \
  'shop:sold\(1, "item 1", 1000000000001, 201, -1, 5, 3, "tem 1", -1000000000001\) +tenant=acme' \
  -- vitrine trace $dof sold --limit 4 --duration 60s
kill $orders

check "profile, on CPU" 'acme' '[0-9]+ samples on CPU' \
  -- vitrine profile $demo --on-cpu --duration 5s --top tenant -o /tmp/on.folded --format folded
check "profile: functions of the program" 'demo::Pool::run.*(render_report|scan_catalogue|sign_receipt)' -- cat /tmp/on.folded
check "profile, off CPU" 'acme' '[0-9]+ samples off CPU' \
  -- vitrine profile $demo --off-cpu --duration 5s --top tenant -o /tmp/off.folded --format folded
check "profile: where it waits, and the kernel's functions" 'demo::Pool::run.*;(schedule|__schedule|do_nanosleep|futex)' -- cat /tmp/off.folded
check "profile of the whole machine" 'acme' -- vitrine profile --all --on-cpu --off-cpu --duration 4s --top tenant -o /tmp/all.pb.gz
check "check of a live process" 'no rule fails' -- vitrine check $demo
check "check of a library" 'no rule fails' -- vitrine check $here/libcustomlabels.so

# A program on NFS whose server stops: what needs its file says so, and all else goes on.
if serve_files /tmp/nfs $here/vitrine-demo-service; then
  sleep 11  # the time that clients have to take back their locks
  /tmp/nfs/vitrine-demo-service >/tmp/far.out 2>&1 &
  far=$!
  wait_for_line /tmp/far.out
  stop_serving
  silent='/tmp/nfs/vitrine-demo-service.*its file system does not respond'
  # shellcheck disable=SC2086  # words
  far_check() { check_code $1 "NFS without its server: $2" "$silent" -- vitrine $2; }
  for command in probes check; do far_check 1 "$command /tmp/nfs/vitrine-demo-service"; done
  far_check 1 "trace /tmp/nfs/vitrine-demo-service shop:order --limit 1"
  far_check 1 "trace $far shop:order --limit 1"
  for command in labels probes check; do far_check 0 "$command $far"; done
  far_check 0 "profile $far --duration 2s"
  check "NFS without its server: ps" "^$demo .*shop" -- vitrine ps
else
  failed=$((failed + 1))
  tell FAILED "NFS is served"
fi

check "the service still serves" 'demo-se' -- grep -h vitrine-demo /proc/$demo/comm
exec 3>&-
kill $demo
echo
cat $table
echo "vitrine-vm: $passed passed, $failed failed"
[ $failed = 0 ]
