package pmemtest_test

import (
	"fmt"
	"slices"

	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
)

// A marker that is persisted together with its data may reach the medium without them.
func ExampleNewSim() {
	s := pmemtest.NewSim(128, nil)
	_ = s.Store(0, []byte("data"))
	_ = s.Store(64, []byte("valid"))
	for im := range s.Snapshot().All(pmemtest.Line) {
		fmt.Printf("%q %q\n", im.Octets()[:4], im.Octets()[64:69])
	}
	// Output:
	// "\x00\x00\x00\x00" "\x00\x00\x00\x00\x00"
	// "data" "\x00\x00\x00\x00\x00"
	// "\x00\x00\x00\x00" "valid"
	// "data" "valid"
}

// A restart from a known image.
func ExampleOpenSim() {
	s := pmemtest.OpenSim([]byte("what the medium held"), nil)
	fmt.Printf("%s %d\n", s.Bytes(), s.Snapshot().Count(pmemtest.Line))
	// Output: what the medium held 1
}

// The test of a recovery: in every crash at every moment, a valid marker has its data. This writer flushes the data
// first; if it does not, failing crashes are printed.
func ExampleSnapshot_Crashes() {
	images := 0
	check := func(s *pmemtest.Sim) {
		for im := range s.Told().Crashes(1, 100) {
			images++
			re := im.Open() // recovery would begin here
			if re.Bytes()[64] == 1 && string(re.Bytes()[:4]) != "data" {
				fmt.Println("lost after crash", im)
			}
		}
	}
	s := pmemtest.NewSim(128, &pmemtest.SimOptions{Step: check})
	_ = s.Store(0, []byte("data"))
	_ = s.Persist(0, 4)
	_ = s.Store(64, []byte{1})
	_ = s.Persist(64, 1)
	fmt.Println(images, "crashes")
	// Output: 30 crashes
}

// A crash that made a test fail is reproduced from its name.
func ExampleSnapshot_Image() {
	s := pmemtest.NewSim(200, nil)
	_ = s.Store(0, []byte("a"))
	_ = s.Store(0, []byte("b"))
	_ = s.Store(130, []byte("c"))
	var last string
	for im := range s.Snapshot().Edges(pmemtest.Line) {
		last = im.String()
	}
	im, err := s.Snapshot().Image(last)
	fmt.Println(last, err, slices.Equal(im.Octets()[:1], []byte("b")))
	// Output: 64: 0=2 <nil> true
}
