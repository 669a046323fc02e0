package tshark_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/tshark"
)

func ExampleJudge() {
	r, err := tshark.Judge(context.Background(), "../../testdata/pcaps/d-terminate.pcap")
	fmt.Println("fine:", errors.Is(err, tshark.ErrMissing) || r.Err() == nil)
	// Output:
	// fine: true
}

func ExampleReframe() {
	in, _ := os.Open("../../testdata/pcaps/b-nfs3-write1m.pcap")
	defer in.Close()
	var out bytes.Buffer
	err := tshark.Reframe(&out, in)
	frames, packets := 0, make(map[int]bool)
	for ev := range decode.Events(&out, nil) {
		if ev.Kind == decode.KindFPDU {
			frames++
			packets[ev.First], packets[ev.Frame] = true, true
		}
	}
	fmt.Println(frames, "frames in", len(packets), "packets", err)
	// Output:
	// 761 frames in 761 packets <nil>
}
