#!/bin/bash
# slurm-test-cluster.sh up DIR | down DIR: a SLURM of one node for tests, all its files in DIR, on loopback only.
# It runs as root from the packages slurmctld, slurmd and slurm-client, without systemd, cgroups or a database, and
# believes in 8 processors and GPUS (2) GPUs that the machine need not have. PORT, PORT+1 and some from PORT+100 on
# must be free. Whoever reaches the ports is trusted: for tests, not for users.
set -euo pipefail
PATH=$PATH:/usr/sbin
command=$1
dir=$(realpath -m "$2")
export SLURM_CONF=$dir/etc/slurm.conf
port=${PORT:-16810} gpus=${GPUS:-2} host=$(hostname -s)

configure() {
    mkdir -p "$dir"/{etc,state,spool,log,run}
    for ((i = 0; i < gpus; i++)); do       # a GPU's File must be a device
        ln -sfn /dev/null "$dir/run/gpu$i"
        echo "Name=gpu File=$dir/run/gpu$i"
    done >"$dir/etc/gres.conf"
    # FirstJobId: MPICH names shared memory by the job, and what a killed one has left must not meet a later cluster's.
    # cred_expire: so long (and a second) a requeued job waits. DefMemPerCPU: else a job takes all memory.
    # config_overrides: processors and memory as they stand here. JobCompType: a line a job, for want of sacct.
    cat >"$SLURM_CONF" <<CONF
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
FirstJobId=$((port * 100 + RANDOM % 100))
SrunPortRange=$((port + 100))-$((port + 199))
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
AuthInfo=cred_expire=5
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
SlurmctldPidFile=$dir/run/slurmctld.pid
SlurmdPidFile=$dir/run/slurmd.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc=$dir/log/jobs.txt
MailProg=/bin/true
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=200
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,sched_interval=1,bf_interval=1
PriorityType=priority/basic
SwitchType=switch/none
MpiDefault=none
EnforcePartLimits=ALL
SlurmdParameters=config_overrides
ReturnToService=2
JobRequeue=1
KillWait=2
MinJobAge=3600
InactiveLimit=0
GresTypes=gpu
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 1)) CPUs=8 RealMemory=64000 Gres=gpu:$gpus
PartitionName=test Nodes=n1 Default=YES MaxTime=INFINITE State=UP
CONF
}

up() {
    configure
    slurmctld -i
    slurmd -N n1
    for _ in {1..200}; do
        [ "$(sinfo -h -N -o %T 2>/dev/null)" = idle ] && return
        sleep 0.05
    done
    sinfo -N -o '%N %T %E' >&2
    return 1
}

down() {
    timeout 5 scancel -u root 2>/dev/null || true
    for _ in {1..60}; do
        [ -z "$(timeout 5 squeue -h 2>/dev/null)" ] && break
        sleep 0.1
    done
    pids=()
    for daemon in slurmd slurmctld; do
        pid=$(cat "$dir/run/$daemon.pid" 2>/dev/null) || continue
        grep -q "^$daemon" "/proc/$pid/comm" 2>/dev/null || continue
        kill "$pid"
        pids+=("$pid")
    done
    for _ in {1..150}; do
        kill -0 "${pids[@]}" 2>/dev/null || return 0        # none is left of those that there were
        sleep 0.1
    done
    echo "killing ${pids[*]}" >&2
    kill -9 "${pids[@]}"
}

case $command in
up | down) "$command" ;;
*) echo "usage: $0 up DIR | down DIR" >&2; exit 2 ;;
esac
