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

// An answer whose grant the peer may ignore leaves it its window of before.
func ExampleResponder_GrantUnheard() {
	p := credits.NewResponder(8)
	p.Posted(p.Need())
	p.Received()
	fmt.Println(p.Grant(8), p.Outstanding())
	p.SetLimit(2)
	p.Received()
	p.Posted(p.Need())
	fmt.Println(p.GrantUnheard(8), p.Outstanding())
	// Output:
	// 8 8
	// 2 8
}

// Two connections share ten credits: the one that uses them gets more, the other one keeps
// its one.
func ExampleNewPool() {
	pool := credits.NewPool(10)
	var busy, idle credits.Share
	pool.Join(&busy)
	pool.Join(&idle)

	p := credits.NewResponder(1)
	p.Posted(p.Need())
	for range 20 {
		n := p.Outstanding() // the peer fills its window
		for range n {
			p.Received()
			busy.Seen(p.Serving())
		}
		for range n {
			p.SetLimit(busy.Answer(64, p.Outstanding()+p.Serving()))
			p.Posted(p.Need())
			p.Grant(64)
		}
	}
	fmt.Println(busy.Limit(), busy.Held(), idle.Limit())
	fmt.Println(pool.Held(), pool.Size(), pool.Holders(), pool.Members())

	busy.Leave()
	fmt.Println(pool.Held(), pool.Members())
	// Output:
	// 10 10 1
	// 10 10 1 2
	// 0 1
}
