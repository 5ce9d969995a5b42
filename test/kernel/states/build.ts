/** The words that the states are built with, as shell functions: the oracle, and plain ip and iptables. */
export const WORDS = `
NET=10.128.3 ACME=yah0-6jgfqfdnu6 GLOBEX=yah0-91auqknbeu INITECH=yah0-as5kg51euo NOBODY=yah0-vvvvvvvvvv

deploy() { bash test/oracle/node.sh deploy "$@"; }
acct()    { deploy --workload acct    --addr $NET.2  "$@"; }
api()     { deploy --workload api     --addr $NET.7  --tenant acme    --identity acme/prod/api       "$@"; }
web()     { deploy --workload web     --addr $NET.8  --tenant acme    --identity acme/prod/web       "$@"; }
billing() { deploy --workload billing --addr $NET.9  --tenant globex  --identity globex/prod/billing "$@"; }
mail()    { deploy --workload mail    --addr $NET.12 --tenant initech --identity initech/prod/mail   "$@"; }

# The host veth first: a namespace's own devices go some time after it was deleted.
stop() { # NAME OCTET
  ip link del "veth$2"; ip netns del "$1"
}

ipt() { "$IPTABLES" -w "$@"; }

# Whatever a person or another program enslaves or names: a veth pair is there in every kernel.
link() { # NAME [PEER]
  ip link add "$1" type veth peer name "\${2:-$1.p}"
}

# A link that is neither a bridge nor a veth, of whichever kind this kernel knows.
other_kind() { # NAME
  ip link add "$1" type dummy 2>/dev/null || ip link add "$1" type ifb 2>/dev/null || ip tuntap add "$1" mode tap
}

# A tc filter that is no flower, of whichever kind this kernel knows.
filter() { # WHERE...
  tc filter add "$@" bpf bytecode '1,6 0 0 0' 2>/dev/null || tc filter add "$@" matchall action ok
}

bridge() { # NAME [ADDRESS]...
  local name=$1 address; shift
  ip link add "$name" type bridge
  for address; do ip addr add "$address" dev "$name"; done
  ip link set "$name" up
}

prohibits() { # BRIDGE PRIORITY PRIORITY
  ip rule add priority "$2" iif "$1" to $NET.0/24 fwmark 0/0x2000000 prohibit
  ip rule add priority "$3" iif "$1" to 100.64.0.0/10 fwmark 0/0x3000000 prohibit
}

# The seven rules of a bridge in one generation, and the mesh's mark, as a deploy writes them.
tagged() { # BRIDGE GENERATION
  local tag="-m comment --comment yah-isolation-$2" new='-m conntrack ! --ctstate ESTABLISHED,RELATED'
  local ungranted='-m mark ! --mark 0x2000000/0x2000000'
  ipt -t raw -I PREROUTING -i "$1" -m rpfilter --invert $tag -j DROP
  ipt -t mangle -I PREROUTING -i "$1" -m conntrack --ctstate ESTABLISHED,RELATED $tag -j MARK --set-xmark 0x1000000/0x1000000
  ipt -I FORWARD -i "$1" -d $NET.0/24 ! -o "$1" $ungranted $tag -j DROP
  ipt -I FORWARD -o "$1" -s $NET.0/24 ! -i "$1" $ungranted $tag -j DROP
  ipt -I FORWARD -i yah0 -o "$1" $ungranted $tag -j DROP
  ipt -I FORWARD -i "$1" -d 100.64.0.0/10 $new $ungranted $tag -j DROP
  ipt -I INPUT -i "$1" ! -p icmp $new $tag -j DROP
}
mesh_mark() { # GENERATION
  ipt -t mangle -I PREROUTING -s 100.64.0.0/10 -d $NET.0/24 -m comment --comment "yah-isolation-$1" -j MARK --set-xmark 0x1000000/0x1000000
}
accepts() { # BRIDGE
  ipt -A FORWARD -i "$1" -j ACCEPT; ipt -A FORWARD -o "$1" -j ACCEPT
}
`
