package fair_test

import (
	"fmt"

	"github.com/stag-rdma/stag/internal/fair"
)

// One client floods the server from behind a proxy. The other one keeps its reply.
func Example() {
	q := fair.New[string, string]()
	for _, client := range []string{"slow", "fast", "fast", "fast"} {
		q.Add(&fair.Item[string, string]{Value: client}, client, "192.0.2.1")
		if it := q.Excess("192.0.2.1", 2); it != nil {
			fmt.Println(it.Value, "loses a reply")
			q.Remove(it)
		}
	}
	fmt.Println(q.Oldest().Value, "has the oldest")
	// Output:
	// fast loses a reply
	// fast loses a reply
	// slow has the oldest
}
