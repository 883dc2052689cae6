#!/bin/sh
# Starts a frontend and two workers on this machine, shows what the second worker brings, and ends them.
#
#   deploy/scale-out.sh [--tutti PROGRAM] [--model MODEL] [--clients N] [--requests N] [--broker redis|rabbitmq] [--keep]
#
# With --broker they meet at a Redis or RabbitMQ of their own, as on several machines.
# Each worker has half of the cores this script may use (one each on two). --keep leaves all three
# running until Ctrl-C. What it leaves in the temporary folder that it prints goes at its end.
set -eu

program=$(dirname "$0")/../build/release/tutti model=smollm2-135m-instruct clients=16 requests=64 keep=no broker=
while [ $# -gt 0 ]; do
  case $1 in
    --tutti) program=$2; shift 2 ;;
    --model) model=$2; shift 2 ;;
    --clients) clients=$2; shift 2 ;;
    --requests) requests=$2; shift 2 ;;
    --broker) broker=$2; shift 2 ;;
    --keep) keep=yes; shift ;;
    -h|--help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "scale-out: unknown argument $1; see --help" >&2; exit 2 ;;
  esac
done
[ -x "$program" ] || { echo "scale-out: $program is no program; build it (make build) or name it with --tutti" >&2; exit 1; }
cores=$(taskset -cp $$ | sed 's/.*: //' | tr ',' '\n' | while IFS=- read -r a b; do seq "$a" "${b:-$a}"; done)
count=$(echo "$cores" | wc -l)
[ "$count" -ge 2 ] || { echo "scale-out: two workers need two cores, this has $count" >&2; exit 1; }
half=$((count / 2))
first=$(echo "$cores" | head -n "$half" | paste -sd,)
second=$(echo "$cores" | tail -n +$((half + 1)) | head -n "$half" | paste -sd,)

work=$(mktemp -d)
pids=
finish() {
  trap - EXIT INT TERM
  for pid in $pids; do kill "$pid" 2>/dev/null || true; done
  for pid in $pids; do wait "$pid" 2>/dev/null || true; done
  rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

started() {  # LOG COUNT: until so many workers are attached
  for _ in $(seq 600); do
    [ "$(grep -c worker.attached "$1" || true)" -ge "$2" ] && return
    sleep 0.1
  done
  echo "scale-out: no worker came; $work/*.log say why:" >&2
  tail -n 3 "$work"/*.log >&2
  exit 1
}
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
answers() { python3 -c 'import socket, sys; socket.create_connection(("127.0.0.1", int(sys.argv[1])), 1)' "$1" 2>/dev/null; }
queue=
start_broker() {
  port=$(free_port)
  case $broker in
    redis)
      redis-server --port "$port" --bind 127.0.0.1 --save '' --dir "$work" >"$work/broker.log" 2>&1 &
      pids="$pids $!" queue="--broker-backend redis --broker-url redis://127.0.0.1:$port" ;;
    rabbitmq)
      mapper=$(free_port)
      epmd -port "$mapper" -address 127.0.0.1 >/dev/null 2>&1 &
      pids="$pids $!"
      mkdir "$work/rabbit"
      echo "listeners.tcp.1 = 127.0.0.1:$port" >"$work/rabbit/rabbitmq.conf"
      HOME=$work/rabbit ERL_EPMD_PORT=$mapper ERL_EPMD_ADDRESS=127.0.0.1 RABBITMQ_NODENAME=tutti$port@localhost \
        RABBITMQ_MNESIA_BASE=$work/rabbit/data RABBITMQ_LOG_BASE=$work/rabbit RABBITMQ_CONFIG_FILE=$work/rabbit/rabbitmq.conf \
        RABBITMQ_ENABLED_PLUGINS_FILE=$work/rabbit/plugins RABBITMQ_DIST_PORT=$(free_port) \
        RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="-kernel inet_dist_use_interface {127,0,0,1}" \
        "$(echo /usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server)" >"$work/broker.log" 2>&1 &
      pids="$pids $!" queue="--broker-backend rabbitmq --broker-url amqp://127.0.0.1:$port" ;;
    *) echo "scale-out: --broker is redis or rabbitmq" >&2; exit 2 ;;
  esac
  for _ in $(seq 600); do answers "$port" && return; sleep 0.1; done
  echo "scale-out: no broker came:" >&2
  tail -n 5 "$work/broker.log" >&2
  exit 1
}
worker() {  # CORES LOG
  # shellcheck disable=SC2086  # several words, or none
  taskset -c "$1" "$program" worker "$model" --store "$work/store" --threads "$half" $queue >"$2" 2>&1 &
  pids="$pids $!"
}
measure() { "$program" bench serve --url "$url" --concurrency "$clients" --requests "$requests" --prompt-tokens 64 --max-tokens 64 --json "$1" >/dev/null; }
rate() { grep -o '"output_tok_s": *[0-9.]*' "$1" | head -n 1 | grep -o '[0-9.]*$'; }

if [ -n "$broker" ]; then
  start_broker
  echo "a broker of their own: ${queue##* }"
fi
# shellcheck disable=SC2086
"$program" serve --role frontend --store "$work/store" --port 0 --grpc-port 0 $queue >"$work/front.log" 2>&1 &
pids="$pids $!"
worker "$first" "$work/worker-1.log"
started "$work/front.log" 1
for _ in $(seq 50); do
  url=$(grep -o 'serving .* at http://[0-9.:]*' "$work/front.log" | grep -o 'http://.*' | head -n 1) && [ -n "$url" ] && break
  sleep 0.1
done
echo "frontend at $url, a worker on cores $first"
measure "$work/one.json"
worker "$second" "$work/worker-2.log"
started "$work/front.log" 2
echo "another worker on cores $second"
measure "$work/two.json"
one=$(rate "$work/one.json") two=$(rate "$work/two.json")
awk -v a="$one" -v b="$two" 'BEGIN { printf "one worker: %.0f tok/s, two workers: %.0f tok/s, %.2f times\n", a, b, b / a }'
if [ "$keep" = yes ]; then
  echo "all three go on until Ctrl-C"
  wait
fi
