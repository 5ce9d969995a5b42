// Go's vishvananda/netlink: a line of input is a round of listing all links.
package main

import (
	"bufio"
	"fmt"
	"os"
	"time"

	"github.com/vishvananda/netlink"
)

func main() {
	handle, err := netlink.NewHandle()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		start := time.Now()
		links, err := handle.LinkList()
		took := time.Since(start)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		veths, masters, mtus, names := 0, 0, 0, 0
		for _, link := range links {
			if link.Type() == "veth" {
				veths++
			}
			attributes := link.Attrs()
			masters += attributes.MasterIndex
			mtus += attributes.MTU
			names += len(attributes.Name)
		}
		fmt.Printf("{\"ms\":%.4f,\"links\":%d,\"veths\":%d,\"masters\":%d,\"mtus\":%d,\"names\":%d}\n",
			float64(took.Nanoseconds())/1e6, len(links), veths, masters, mtus, names)
	}
}
