package coverage_test

import (
	"fmt"
	"os"
	"testing/fstest"

	"github.com/stag-rdma/stag/conformance/internal/coverage"
)

const source = `package rdmap

// spec: rdmap 7.4 streams
func TestStreams(t *testing.T) {}
`

func ExampleScan() {
	tags, err := coverage.Scan(fstest.MapFS{"rdmap/streams_test.go": {Data: []byte(source)}})
	fmt.Println(err)
	for _, t := range tags {
		fmt.Println(t.Row, t.Name(), t.File, t.Line)
	}
	// Output:
	// <nil>
	// 7.4 streams rdmap.TestStreams rdmap/streams_test.go 3
}

func ExampleNew() {
	tag := coverage.Tag{Spec: "rdmap", Row: "7.4 streams", Package: "rdmap", Test: "TestStreams"}
	r := coverage.New("rdmap", []coverage.Tag{tag})
	fmt.Println(len(r.Empty()), "rows to go")
	r.Entries, r.Sentences = r.Entries[65:66], nil
	if err := r.Print(os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 78 rows to go
	// rdmap 7.4 (RFC 5040 Section 5.5, RFC 7306 Section 5.4)
	//   streams          no order across streams, nor between the two directions of one
	//                      rdmap.TestStreams
	// rdmap: 1 rows, 0 without a test, 1 tags
}

func ExampleRows() {
	for _, spec := range coverage.Specs() {
		for _, group := range coverage.Groups(spec) {
			n := 0
			for _, row := range coverage.Rows(spec) {
				if row.Group() == group {
					n++
				}
			}
			fmt.Println(spec, group, n)
		}
	}
	// Output:
	// rdmap 7.1 9
	// rdmap 7.2 16
	// rdmap 7.3 39
	// rdmap 7.4 8
	// rdmap 7.5 7
	// rpcrdma 14 15
}
