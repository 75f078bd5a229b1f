#!/bin/bash
# One-node Slurm for the tests: installs Debian's slurm-wlm and munge, starts and stops the daemons.
#
#   slurm_node.sh install            needs root and apt
#   slurm_node.sh start DIRECTORY    state, logs and configuration live there; TaskEpilog=DIRECTORY/task_epilog.sh
#   slurm_node.sh stop DIRECTORY
#
# Where Debian's slurmdbd and mariadb-server are installed, jobs are accounted: sacct answers.
#
# Only processes that it started itself, by the ids it wrote down, are ended.
set -eu

fail() { echo "slurm_node: $*" >&2; exit 1; }

install() {
    [ "$(id -u)" = 0 ] || fail 'installation needs root'
    command -v slurmctld >/dev/null && command -v slurmd >/dev/null && command -v munged >/dev/null && return 0
    command -v apt-get >/dev/null || fail 'no apt-get here'
    export DEBIAN_FRONTEND=noninteractive
    # The packages' own services stay off: the test starts its own daemons.
    if [ ! -e /usr/sbin/policy-rc.d ]; then
        printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
        chmod 0755 /usr/sbin/policy-rc.d
        trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    fi
    # Without a mirror the test is left out within seconds, not when the connection gives up.
    waiting='-o Acquire::http::Timeout=10 -o Acquire::https::Timeout=10 -o Acquire::Retries=0'
    # shellcheck disable=SC2086
    timeout 60 apt-get -qq $waiting update >/dev/null || fail 'apt-get update failed: no package mirror in reach?'
    # shellcheck disable=SC2086
    timeout 300 apt-get -qq $waiting install -y --no-install-recommends slurm-wlm munge >/dev/null || fail 'apt-get install failed'
}

configuration() {
    host=$(hostname -s)
    cat <<CONF
ClusterName=logdoctor
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$2
SlurmdPort=$3
AuthType=auth/munge
AuthInfo=socket=$1/munge/socket
CredType=cred/munge
SlurmUser=root
StateSaveLocation=$1/state
SlurmdSpoolDir=$1/spool
SlurmctldPidFile=$1/slurmctld.pid
SlurmdPidFile=$1/slurmd.pid
SlurmctldLogFile=$1/slurmctld.log
SlurmdLogFile=$1/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
JobAcctGatherParams=OverMemoryKill
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
MpiDefault=none
SchedulerParameters=sched_interval=1,batch_sched_delay=0,default_queue_depth=100
ReturnToService=2
KillWait=30
MinJobAge=7200
TaskEpilog=$1/task_epilog.sh
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) RealMemory=2000 State=UNKNOWN
PartitionName=test Nodes=$host Default=YES MaxTime=INFINITE State=UP
$4
CONF
}

accounts() { command -v slurmdbd >/dev/null && command -v mariadbd >/dev/null; }

# start_accounting DIRECTORY PORT: a database that listens on this host alone, and the daemon before it.
start_accounting() {
    mkdir -p "$1/db"
    chmod 0700 "$1/db"
    mariadb-install-db --no-defaults --user=root --datadir="$1/db" --auth-root-authentication-method=normal >"$1/db.log" 2>&1
    printf "CREATE USER slurm@'127.0.0.1' IDENTIFIED BY 'tests';\nGRANT ALL ON slurm_acct_db.* TO slurm@'127.0.0.1';\n" >"$1/db.sql"
    mariadbd --no-defaults --user=root --datadir="$1/db" --socket="$1/db/socket" --pid-file="$1/db.pid" --bind-address=127.0.0.1 \
        --port="$2" --skip-log-bin --skip-name-resolve --init-file="$1/db.sql" >>"$1/db.log" 2>&1 &
    cat >"$1/slurmdbd.conf" <<CONF
AuthType=auth/munge
AuthInfo=socket=$1/munge/socket
DbdHost=localhost
DbdPort=$(($2 + 1))
SlurmUser=root
LogFile=$1/slurmdbd.log
PidFile=$1/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=$2
StorageUser=slurm
StoragePass=tests
StorageLoc=slurm_acct_db
CONF
    chmod 0600 "$1/slurmdbd.conf"
    wait_for 60 test -S "$1/db/socket" || fail 'the database did not come up'
    slurmdbd
    wait_for 60 timeout 10 sacctmgr -i -n add cluster logdoctor || { tail -n 5 "$1/slurmdbd.log" >&2; fail 'slurmdbd did not come up'; }
}

wait_for() { # seconds command...
    left=$(($1 * 10)); shift
    until "$@" >/dev/null 2>&1; do
        left=$((left - 1))
        [ "$left" -gt 0 ] || return 1
        sleep 0.1
    done
}

start() {
    directory=$1
    mkdir -p "$directory"/{state,spool,munge}
    # munged refuses a socket or key that others could have written, up to the root directory.
    chmod 0755 "$directory" "$directory/munge"
    [ -e "$directory/task_epilog.sh" ] || { printf '#!/bin/sh\nexit 0\n' >"$directory/task_epilog.sh"; chmod 0755 "$directory/task_epilog.sh"; }
    head -c 1024 /dev/urandom >"$directory/munge/key"
    chmod 0400 "$directory/munge/key"
    port=$((20000 + $$ % 20000))
    storage=accounting_storage/none
    ! accounts || storage="accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePort=$((port + 3))
AccountingStoragePass=$directory/munge/socket"
    configuration "$directory" "$port" "$((port + 1))" "AccountingStorageType=$storage" >"$directory/slurm.conf"
    export SLURM_CONF=$directory/slurm.conf
    munged --force --key-file="$directory/munge/key" --socket="$directory/munge/socket" \
        --pid-file="$directory/munge/pid" --log-file="$directory/munge/log" --seed-file="$directory/munge/seed"
    ! accounts || start_accounting "$directory" "$((port + 2))"
    slurmctld -c
    slurmd
    wait_for 30 sh -c "sinfo -h -o %T | grep -Eq '^(idle|mixed)'" ||
        { tail -n 5 "$directory"/slurm*.log >&2; fail 'the node did not come up'; }
}

stop() {
    directory=$1
    for file in slurmd.pid slurmctld.pid slurmdbd.pid db.pid munge/pid; do
        [ -s "$directory/$file" ] || continue
        kill "$(cat "$directory/$file")" 2>/dev/null || :
    done
}

case ${1:-} in
    install) install ;;
    start) start "$(realpath -m "$2")" ;;
    stop) stop "$(realpath -m "$2")" ;;
    *) fail 'usage: slurm_node.sh install | start DIRECTORY | stop DIRECTORY' ;;
esac
