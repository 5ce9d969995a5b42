cat /proc/uptime; grep -H . /sys/devices/system/cpu/vulnerabilities/* | cut -d/ -f7 | grep -v 'Not aff' | head -20
for i in $(seq 30); do iptables-nft -w -t mangle -S >/dev/null; ip rule >/dev/null; done; cat /proc/uptime; for i in $(seq 5); do node -e 0; done; cat /proc/uptime;  node dist/cli.js sweep; cat /proc/uptime
