#!/usr/bin/env bash
# Runs a command in network, mount and process namespaces of its own, with an empty /run and lo up, so that
# nothing it does reaches the machine and nothing of it outlives the command:
#
#   private.sh COMMAND [ARGUMENT]...
#
# All of it dies with COMMAND, with this script, and with whoever started this script, SIGKILL included. Signals
# and the terminal reach COMMAND. The exit status is COMMAND's, 128 + N when signal N ended it, and 125 when the
# namespaces could not be made. Needs CAP_SYS_ADMIN and CAP_NET_ADMIN, or user namespaces.
set -u
# Debian keeps ip, tc, iptables and sysctl out of an ordinary user's PATH.
PATH=$PATH:/usr/sbin:/sbin

die() { echo "private.sh: $*" >&2; exit 125; }

# The fields of /proc/self/stat from the third on: state, parent, process group, session, terminal, its foreground group.
process_stat() { local line; read -r line </proc/self/stat && stat=(${line##*) }); }

capable() { # CAP_NET_ADMIN (12) and CAP_SYS_ADMIN (21), whoever we are: root in a container often has neither
  local name value
  while read -r name value; do
    [ "$name" = CapEff: ] && (((0x$value >> 12 & 1) && (0x$value >> 21 & 1))) && return
  done </proc/self/status
  return 1
}

why_no_user_namespace() {
  local switch=/proc/sys/user/max_user_namespaces
  if [ "$(cat $switch 2>/dev/null)" = 0 ]; then
    echo 'user namespaces are switched off; as root: sysctl -w user.max_user_namespaces=15000'
  elif [ "$(cat /proc/sys/kernel/unprivileged_userns_clone 2>/dev/null)" = 0 ]; then
    echo 'user namespaces are kept to root; as root: sysctl -w kernel.unprivileged_userns_clone=1'
  elif [ "$(cat /proc/sys/kernel/apparmor_restrict_unprivileged_userns 2>/dev/null)" = 1 ]; then
    echo 'AppArmor restricts user namespaces; as root: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0'
  else
    echo 'inside a container, start it with --privileged; elsewhere, run this as root'
  fi
}

# 1: enters the namespaces, as this same process: nobody in between could die and leave the rest running.
enter() {
  local self; self=$(readlink -f "$0")
  (($#)) || { sed -n '2,9s/^# \{0,1\}//p' "$self" >&2; exit 2; }
  local tool user=()
  for tool in unshare setpriv mount ip; do
    command -v "$tool" >/dev/null || die "$tool is not installed (Debian: apt-get install util-linux mount iproute2)"
  done
  if ! capable; then
    # On its own, before the others: the kernel gives a network namespace's /proc/net files to the root that the user
    # namespace has when it is made, and `unshare -Urn` makes it before there is one. ip_tables_names would be unreadable.
    user=(unshare --user --map-root-user --)
  fi
  local namespaces=(unshare --mount --net --pid) said
  said=$("${user[@]}" "${namespaces[@]}" --fork -- true 2>&1) ||
    die "cannot make the namespaces: ${said:-unshare failed} ($(
      if ((${#user[@]})); then why_no_user_namespace; else echo 'the container or its seccomp profile forbids it'; fi))"
  # From here on we die with our caller. After the user namespace, since a change of credentials would reset it.
  exec "${user[@]}" setpriv --pdeathsig KILL -- "${namespaces[@]}" -- bash "$self" --supervise "$PPID" "$@"
}

# Waits for process $1, passing on the signals named after it; `status` is its own, not an interrupted wait's.
attend() {
  local pid=$1 name; shift
  for name; do trap "kill -$name $pid 2>/dev/null" "$name"; done
  while :; do
    { wait "$pid"; } 2>/dev/null # else the shell remarks on how it ended
    status=$?
    kill -0 "$pid" 2>/dev/null || break
  done
  wait "$pid" 2>/dev/null; local again=$?
  ((again == 127)) || status=$again
}

# 2: stays outside the process namespace; its first child is that namespace's PID 1, so nothing may fork before it.
supervise() {
  local caller=$1 stat; shift
  [ "$PPID" = "$caller" ] || exit 137 # it died before we could ask to die with it
  [ -e /proc/self/fd/0 ] || exec </dev/null
  process_stat
  # What is typed at a terminal goes to all of its foreground group, COMMAND included: passing it on would double it.
  local signals='HUP TERM USR1 USR2'
  if ((stat[2] == stat[5])); then trap : INT QUIT; else signals+=' INT QUIT'; fi
  # A shell starts background commands without a stdin, and deaf to INT and QUIT.
  env --default-signal=INT,QUIT setpriv --pdeathsig KILL -- bash "$0" --init "$$" "$signals" "$@" <&0 &
  attend $! $signals
  exit "$status"
}

# Mounts an empty /run: /run/netns, /run/netsweep and /run/xtables.lock are what the tools under test share through it.
# With --no-mtab: else mount(8) would leave a folder of its own in the /run that we were started in.
fresh_run() {
  local path kept=() fd fds=() i
  for path in "$PWD" "${0%/*/*}" "${TMPDIR:-/tmp}" "$(dirname "$(readlink -f "$(command -v node || echo /)")")"; do
    path=$(readlink -f "$path")
    case $path/ in /run/*) exec {fd}<"$path" && kept+=("$path") fds+=("$fd") ;; esac
  done
  mount --no-mtab -t tmpfs -o mode=755 tmpfs /run || die 'cannot mount a tmpfs on /run'
  # What we were started from stays, even when it lies below /run.
  for i in "${!kept[@]}"; do
    mkdir -p "${kept[i]}"
    mount --no-mtab --no-canonicalize --rbind "/proc/self/fd/${fds[i]}" "${kept[i]}" || die "cannot keep ${kept[i]}"
    exec {fds[i]}<&-
  done
  cd "$PWD" || die "cannot go back to $PWD"
}

# 3: PID 1. When it ends, the kernel kills whatever is left in here.
init() {
  local supervisor=$1 signals=$2 stat said; shift 2
  process_stat # of the process namespace outside, whose /proc is still there
  [ "${stat[1]}" = "$supervisor" ] || exit 137
  trap : INT QUIT
  fresh_run
  said=$(mount --no-mtab -t proc proc /proc 2>&1) || die "cannot mount /proc (${said%%$'\n'*}): parts of it are hidden here," \
    'as containers do (docker: --security-opt systempaths=unconfined)'
  ip link set lo up || die 'cannot set lo up'
  env --default-signal=INT,QUIT -- "$@" <&0 &
  attend $! $signals
  exit "$status"
}

case ${1:-} in
  --supervise) shift; supervise "$@" ;;
  --init) shift; init "$@" ;;
  *) enter "$@" ;;
esac
