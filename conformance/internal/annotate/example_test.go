package annotate_test

import (
	"bytes"
	"fmt"
	"os"

	"github.com/gopacket/gopacket/pcapgo"

	"github.com/stag-rdma/stag/conformance/internal/annotate"
)

func ExampleCopy() {
	in, err := os.Open("../../testdata/pcaps/d-reject.pcap")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer in.Close()
	var out bytes.Buffer
	err = annotate.Copy(&out, in, func(frame int) []string {
		if frame == 4 {
			return []string{"the MPA Request"}
		}
		return nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := pcapgo.NewNgReader(&out, pcapgo.DefaultNgReaderOptions)
	for frame := 1; err == nil && frame <= 5; frame++ {
		var opt pcapgo.NgPacketOptions
		_, _, opt, err = r.ReadPacketDataWithOptions()
		fmt.Println(frame, opt.Comments)
	}
	fmt.Println(err)
	// Output:
	// 1 []
	// 2 []
	// 3 []
	// 4 [the MPA Request]
	// 5 []
	// <nil>
}
