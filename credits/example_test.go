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

func ExampleNewRequester() {
	q := credits.NewRequester(4)
	q.Grant(1 << 20) // never more than asked
	fmt.Println(q.Request(), q.Window())
	q.Grant(0) // never less than one
	fmt.Println(q.Window())
	// Output:
	// 4 4
	// 1
}

// A lower grant cancels nothing; it closes the window for a while.
func ExampleRequester_Grant() {
	q := credits.NewRequester(4)
	q.Grant(4)
	q.Take()
	q.Take()
	q.Take()
	q.Grant(2)
	fmt.Println(q.InFlight(), q.Available(), q.Take())
	q.Release()
	q.Release()
	fmt.Println(q.InFlight(), q.Available(), q.Take())
	// Output:
	// 3 0 false
	// 1 1 true
}

func ExampleRequester_Reset() {
	q := credits.NewRequester(4)
	q.Grant(4)
	q.Take()
	old := q.Epoch()

	q.Reset() // a new connection: one credit, nothing in flight
	fmt.Println(q.InFlight(), q.Available())
	q.GrantIn(old, 4)
	fmt.Println(q.ReleaseIn(old), q.Window())
	// Output:
	// 0 1
	// false 1
}

// A reply that must be pulled costs one more credit, for its RDMA_DONE.
func ExampleRequester_TakeDone() {
	q := credits.NewRequester(4)
	q.KeepDone(true)
	q.Grant(3)
	fmt.Println(q.Take(), q.Take(), q.Take()) // one is kept in hand
	fmt.Println(q.TakeDone())
	// Output:
	// true true false
	// true
}

func ExampleNewResponder() {
	p := credits.NewResponder(8)
	fmt.Println(p.Need(), p.Check())
	p.Posted(p.Need())
	fmt.Println(p.Need(), p.Outstanding(), p.Receives(), p.Check())
	// Output:
	// 10 credits: outstanding above receives posted: 1 calls and 0 others may arrive, 0 receives
	// 0 1 10 <nil>
}

func ExampleResponder_Received() {
	p := credits.NewResponder(8)
	p.Posted(p.Need())
	fmt.Println(p.Received(), p.Received()) // the second without a credit
	fmt.Println(p.Serving())
	// Output:
	// true false
	// 2
}

// Answers to calls of ours arrive in the same receives.
func ExampleResponder_Expect() {
	p := credits.NewResponder(8)
	p.Posted(p.Need())
	p.Expect(1)
	fmt.Println(p.Need())
	p.Posted(p.Need())
	fmt.Println(p.ReceivedOther(), p.ReceivedOther())
	// Output:
	// 1
	// true false
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

func ExampleResponder_SetLimit() {
	p := credits.NewResponder(8)
	p.Posted(p.Need())
	p.SetLimit(2)
	p.Received()
	fmt.Println(p.Grant(32), p.Outstanding())
	// Output: 2 2
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
