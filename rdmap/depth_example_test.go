package rdmap_test

import "fmt"

// The peers of an upper layer have agreed on four Reads at a time, in its own words.
func ExampleConn_LimitORD() {
	a, b := pair(nil, nil)
	defer a.Close()
	go b.Serve()
	defer b.Close()

	a.LimitORD(4)
	a.LimitORD(9) // only lower
	fmt.Println(a.ConnectionState().ORD, b.ConnectionState().ORD > 4)
	a.LimitORD(0)
	fmt.Println(a.ConnectionState().ORD)
	// Output:
	// 4 true
	// 1
}
