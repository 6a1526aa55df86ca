#!/bin/sh
# A Dask scheduler and workers on this machine, each started by hand as on machines of their own.
# Ctrl-C ends all of them.
#
#   sh start.sh            a scheduler at tcp://127.0.0.1:8786 and four workers
#   sh start.sh 8790 2     at another port, and two
set -eu
port=${1:-8786}
workers=${2:-4}
address=tcp://127.0.0.1:$port
pids=

finish() {
    trap - EXIT INT TERM
    for pid in $pids; do kill "$pid" 2>/dev/null || true; done
    wait
}
trap finish EXIT INT TERM

dask scheduler --host 127.0.0.1 --port "$port" --no-dashboard &
pids=$!
for _ in $(seq "$workers"); do
    dask worker "$address" --host 127.0.0.1 --nthreads 1 --no-dashboard &
    pids="$pids $!"
done
echo "$workers workers at $address; in another terminal: mercer fit FOLDER --scheduler $address ..."
wait
