package credits_test

import (
	"fmt"

	"github.com/stag-rdma/stag/credits"
)

// One call from the requester to the responder and back.
func Example() {
	q, p := credits.NewRequester(32), credits.NewResponder(8)
	p.Posted(p.Need()) // after the receives are posted

	fmt.Println(q.Take(), q.Take()) // one credit until the first reply
	asked := q.Request()            // travels in the call

	fmt.Println(p.Received())
	p.Posted(p.Need())  // receives first,
	g := p.Grant(asked) // then the grant; it travels in the reply

	q.Grant(g)
	q.Release()
	fmt.Println(g, q.Available(), p.Check())
	// Output:
	// true false
	// true
	// 8 8 <nil>
}
