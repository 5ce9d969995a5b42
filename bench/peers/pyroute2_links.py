"""Python's pyroute2: a line of input is a round of listing all links."""
import json
import sys
import time

from pyroute2 import IPRoute

with IPRoute() as ipr:
    for _ in sys.stdin:
        start = time.perf_counter()
        found = []
        for message in ipr.get_links():
            attributes = dict(message["attrs"])
            info = attributes.get("IFLA_LINKINFO")
            found.append((
                message["index"],
                message["flags"],
                attributes["IFLA_IFNAME"],
                (info.get_attr("IFLA_INFO_KIND") if info else None) or "",
                attributes.get("IFLA_MASTER", 0),
                attributes["IFLA_MTU"],
                attributes.get("IFLA_ADDRESS"),
            ))
        ms = (time.perf_counter() - start) * 1000
        print(json.dumps({
            "ms": ms,
            "links": len(found),
            "veths": sum(kind == "veth" for _, _, _, kind, _, _, _ in found),
            "masters": sum(master for _, _, _, _, master, _, _ in found),
            "mtus": sum(mtu for _, _, _, _, _, mtu, _ in found),
            "names": sum(len(name) for _, _, name, _, _, _, _ in found),
        }), flush=True)
