package page

import (
	"strconv"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/judge"
)

// clickLinks: #packet-N opens the message of packet N, and the address names the chosen one; consequences are below
// their cause; the axis is time or the order of messages, and says which; the calls have response times.
func clickLinks(t *testing.T, b *browser) {
	p, v := reads(40, 20)
	after := *v
	after.Cause, after.Detail = v, "because of it"
	v.Consequences, v.Folded = []*judge.Violation{&after}, 7
	b.load(p, v)
	b.want("the link opens the violation", "location.hash = '#packet-"+strconv.Itoa(v.Frame)+"'", "#packet-"+strconv.Itoa(v.Frame))
	b.wait("!document.getElementById('details').hidden")
	b.want("it is that packet", "chosen().frame", float64(v.Frame))
	b.want("with its consequences", "document.querySelector('.fault details').textContent.includes('because of it')", true)
	b.want("and how many are not listed", "document.querySelector('.fault details').textContent.includes('and 6 more')", true)
	b.keys("j")
	b.want("the address follows", "location.hash === '#packet-' + chosen().frame", true)
	b.want("the axis is time", "document.getElementById('axis').textContent", "Axis: time, linear")
	b.keys("a")
	b.want("or messages", "document.getElementById('axis').textContent", "Axis: order of messages")
	b.want("READs took time", "document.querySelector('#times tbody').textContent.includes('READ')", true)
	b.want("the columns have titles", "document.querySelectorAll('.heads .col').length", 2.0)
}

// clickNarrow: at 420 pixels nothing is cut off, and the side bar comes when it is called.
func clickNarrow(t *testing.T, b *browser) {
	p, v := reads(40, 20)
	b.size(420, 860)
	defer b.size(1280, 860)
	b.load(p, v)
	b.want("nothing is wider than the window", "document.documentElement.scrollWidth", 420.0)
	b.want("the side bar is away", "getComputedStyle(document.getElementById('side')).display", "none")
	b.click("#menu")
	b.want("the side bar has come", "getComputedStyle(document.getElementById('side')).display", "block")
	b.click("#found li button")
	b.want("and goes for what was chosen", "getComputedStyle(document.getElementById('side')).display", "none")
	b.wait("!document.getElementById('details').hidden")
	b.want("the details fit", "document.getElementById('details').getBoundingClientRect().width <= 420", true)
}

// TestTimes: the response times of a page, by procedure, in the order of their first reply.
func TestTimes(t *testing.T) {
	p, _ := reads(3, -1)
	for _, c := range p.conns {
		c.end()
		if len(c.Times) != 1 || c.Times[0].Calls != 3 || c.Times[0].Min <= 0 || c.Times[0].Max < c.Times[0].Min || c.Times[0].Sum < c.Times[0].Max {
			t.Errorf("%+v", c.Times)
		}
	}
}
