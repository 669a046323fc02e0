package page

import (
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
)

var shots = flag.String("shots", "", "write screenshots of the pages into this `DIR`")

// TestClick opens pages in Chromium and uses them like a reader. One browser serves all, since it takes a
// second to start.
func TestClick(t *testing.T) {
	b := newBrowser(t)
	for _, tt := range []struct {
		name string
		run  func(*testing.T, *browser)
	}{
		{"load", clickLoad},
		{"keys", clickKeys},
		{"filter", clickFilter},
		{"violation", clickViolation},
		{"details", clickDetails},
		{"connections", clickConnections},
		{"many", clickMany},
		{"hostile", clickHostile},
		{"themes", clickThemes},
		{"nothing", clickNothing},
		{"links", clickLinks},
		{"narrow", clickNarrow},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b.t = t
			tt.run(t, b)
			for _, s := range b.said {
				t.Errorf("the browser complains: %s", s)
			}
			b.said = nil
			if *shots != "" {
				b.screenshot(filepath.Join(*shots, tt.name+".png"))
			}
		})
	}
	b.t = t
}

// zeroGrant is a rule to break.
var zeroGrant = judge.Rule{
	ID: "RPCRDMA-900", Source: "RFC 8166 Section 3.3.1", Level: judge.Must, Severity: judge.Error,
	Text: "A responder grants at least one credit.",
}

// reads is a page about n READs on one connection, and the violation of the READ that wrong names.
func reads(n, wrong int) (*Builder, *judge.Violation) {
	p := New("reads.pcap", nil)
	t := newTalk(p, 1)
	var v *judge.Violation
	for i := range n {
		t.read(uint32(0x1000 + i))
		if i == wrong {
			v = t.violation(&zeroGrant, decode.FromAccepter, "the reply grants 0 credits")
		}
	}
	return p, v
}

const selected = "document.querySelector('[aria-selected=true]')"

func clickLoad(_ *testing.T, b *browser) {
	p, _ := reads(5, -1)
	b.load(p)
	b.want("two startup frames, three arrows per READ", "document.querySelectorAll('[role=option]').length", 17.0)
	b.want("two segments are one RDMA Write", "document.querySelector('[data-kind=write]').innerText.includes('in 2 segments')", true)
	b.want("a Write is drawn with two lines", "document.querySelectorAll('.row[data-kind=write]')[0].querySelectorAll('line').length", 2.0)
	b.want("a Send with one", "document.querySelectorAll('.row[data-kind=send]')[0].querySelectorAll('line').length", 1.0)
	b.want("the Write has the colour of its call",
		"getComputedStyle(document.querySelector('[data-kind=write] .arrow')).color === getComputedStyle(document.querySelector('[data-kind=send] .arrow')).color", true)
	b.want("the next call has another",
		"new Set([...document.querySelectorAll('[data-kind=send] .arrow')].map((a) => getComputedStyle(a).color)).size", 5.0)
	b.want("credits are drawn", "document.querySelector('#plot .granted').getAttribute('d').length > 10", true)
	b.want("and told", "document.getElementById('plot').getAttribute('aria-label')",
		"credits granted, up to 16; asked for, up to 32; calls waiting, up to 1")
	b.want("nothing is fetched", "performance.getEntriesByType('resource').length", 0.0)
	b.want("no violation", "document.getElementById('summary').textContent", "1 connection, 17 messages, 0 violations")
}

func clickKeys(_ *testing.T, b *browser) {
	p, _ := reads(5, -1)
	b.load(p)
	b.keys("ArrowDown", "j", "j")
	b.want("arrows and j move", selected+".querySelector('.what').innerText.includes('call NFSv3 READ')", true)
	b.want("the list says which is chosen", "document.getElementById('ladder').getAttribute('aria-activedescendant') === "+selected+".id", true)
	b.want("and reads it out", selected+".getAttribute('aria-label')",
		"0.000002 s, frame 3, client to server, Send call NFSv3 READ + write, XID 0x00001000")
	b.keys("x")
	b.want("x goes to the reply", selected+".querySelector('.what').innerText.includes('reply NFSv3 READ')", true)
	b.keys("k")
	b.want("k moves back", selected+".dataset.kind", "write")
	b.keys("x")
	b.want("x goes from a Write to its call", selected+".getAttribute('aria-posinset')", "3")
	b.keys("G")
	b.want("G is the last", selected+".getAttribute('aria-posinset')", "17")
	b.keys("ArrowDown")
	b.want("and there is no further", selected+".getAttribute('aria-posinset')", "17")
	b.keys("?")
	b.want("? opens the help", "document.getElementById('keys').open", true)
	b.keys("j", "Escape")
	b.want("Esc closes it", "document.getElementById('keys').open", false)
	b.want("keys after it did nothing", selected+".getAttribute('aria-posinset')", "17")
}

func clickFilter(_ *testing.T, b *browser) {
	b.load(reads(5, 2))
	b.keys("/")
	b.want("/ goes to the filter", "document.activeElement.id", "filter")
	b.keys("o", "p", ":", "w", "r", "i", "t", "e")
	b.want("only Writes are left", "[...document.querySelectorAll('[role=option]')].every((r) => r.dataset.kind === 'write')", true)
	b.want("five of them", "document.getElementById('matches').textContent", "5 of 17")
	b.keys("Enter", "j")
	b.want("Enter goes to the list, j moves in it", selected+".getAttribute('aria-posinset')", "2")
	b.keys("Escape")
	b.want("Esc clears the filter", "document.getElementById('matches').textContent", "17 messages")
	b.want("and keeps the message", selected+".dataset.kind", "write")
	for filter, n := range map[string]string{
		"!": "1 of 17", "rule:rpcrdma-9": "1 of 17", "xid:0x1001": "0 of 17", "xid:0x00001001": "3 of 17", "reply -0x00001001": "5 of 17",
		`"nfsv3 read" nfs3_ok`: "5 of 17", "frame:3-6": "3 of 17", "field:nfs3_ok": "5 of 17", "constructor:x": "0 of 17",
	} {
		b.eval("setFilter(" + quote(filter) + ")")
		b.want("filter "+filter, "document.getElementById('matches').textContent", n)
	}
}

func clickViolation(_ *testing.T, b *browser) {
	b.load(reads(200, 150))
	b.want("it is not in sight", "document.querySelector('.row.marked')", nil)
	b.click("#found li button")
	b.want("a click goes there", selected+".classList.contains('marked')", true)
	b.want("the row names the rule", selected+".querySelector('.rule').textContent", "RPCRDMA-900")
	b.want("the details say what and why", "document.querySelector('#details .fault').textContent",
		"RPCRDMA-900 the reply grants 0 credits"+"MUST (RFC 8166 Section 3.3.1): A responder grants at least one credit.")
	b.want("what could not be judged is told", "document.getElementById('unknown').textContent", "what was said before")
	b.keys("Escape", "g", "n")
	b.want("so does n", selected+".classList.contains('marked')", true)
	b.want("it is marked over the credits", "document.querySelectorAll('#plot .mark').length", 1.0)
}

func clickDetails(_ *testing.T, b *browser) {
	p := New("long.pcap", &Options{MaxOctets: 32})
	t := newTalk(p, 1)
	t.fpdu(decode.FromOpener, verbs.OpWrite, ddp.Segment{STag: 0x0102, Last: true}, "0123456789abcdefghijklmnopqrstuvwxyz", nil)
	b.load(p)
	b.click("[data-kind=write]")
	b.want("a click opens the details", "document.getElementById('details').hidden", false)
	b.want("fields", "document.getElementById('details').innerText.includes('RDMA Write')", true)
	b.want("octets, as many as there is room for", "[...document.querySelectorAll('#details h3')].at(-1).textContent",
		"Octets: the first 32 of 56 octets")
	b.want("in hexadecimal and as text", "document.querySelector('.hex').textContent.includes('30 31 32 33')", true)
	b.want("by layers", "[...document.querySelector('.hex').querySelectorAll('span')].map((s) => s.className).includes('ddp')", true)
	b.keys("Escape")
	b.want("Esc closes", "document.getElementById('details').hidden", true)
	b.keys("Enter")
	b.want("Enter opens and goes there", "document.activeElement.id", "details")
}

func clickConnections(_ *testing.T, b *browser) {
	p, _ := reads(3, -1)
	newTalk(p, 2).read(7)
	b.load(p)
	b.want("two", "document.querySelectorAll('#conns button').length", 2.0)
	b.keys("]")
	b.want("] is the next", "document.getElementById('matches').textContent", "5 messages")
	b.click("#conns button")
	b.want("a click goes back", "document.getElementById('matches').textContent", "11 messages")
}

func clickMany(_ *testing.T, b *browser) {
	b.load(reads(3333, 3000)) // 10,001 messages
	b.want("all are there", "document.getElementById('matches').textContent", "10,001 messages")
	b.want("only those in sight are drawn", "document.querySelectorAll('[role=option]').length < 60", true)
	b.keys("G")
	b.want("the last can be reached", selected+".getAttribute('aria-posinset')", "10001")
	b.want("still few are drawn", "document.querySelectorAll('[role=option]').length < 60", true)
	b.eval("document.getElementById('ladder').scrollTop = 180000")
	b.wait("document.querySelector('[aria-posinset=\"5010\"]') !== null")
	b.want("after scrolling, too", "document.querySelectorAll('[role=option]').length < 60", true)
	b.keys("/", "!", "Enter")
	b.want("and filtered", selected+".classList.contains('marked')", true)
	b.want("the chart has no more steps than pixels", "document.querySelector('#plot .open').getAttribute('d').split('H').length < 1500", true)
}

// hostile is a name that somebody may give to a file.
const hostile = `</script><script>window.hacked=1</script><img src=x onerror="window.hacked=1">` + "\u2028" + `{{.Data}}<!--`

func clickHostile(_ *testing.T, b *browser) {
	p := New(hostile, nil)
	t := newTalk(p, 1)
	rule := zeroGrant
	rule.ID, rule.Text, rule.Source = hostile, hostile, hostile
	t.send(decode.FromOpener, &rpcrdma.Header{XID: 1}, &decode.RPC{Name: hostile, Status: hostile}, hostile)
	b.load(p, t.violation(&rule, decode.FromOpener, hostile))
	b.click(".row.marked")
	b.click("#found li button")
	b.keys("Escape", "?", "Escape")
	b.want("no script of theirs ran", "window.hacked", nil)
	b.want("there is none", "document.querySelectorAll('script').length", 2.0)
	b.want("nor an element", "document.querySelectorAll('img').length", 0.0)
	b.want("it is shown as it stands", "document.querySelector('h1').textContent === "+quote(hostile), true)
	b.want("in the list", "document.querySelector('#found .rule').textContent === "+quote(hostile), true)
	b.want("in the details", "document.querySelector('#details .fault').textContent.includes("+quote(hostile)+")", true)
	b.want("in the title", "document.title === "+quote(hostile), true)
	b.want("and the policy would stop one",
		"(() => { const s = document.createElement('script'); s.textContent = 'window.hacked = 1'; document.head.append(s); return window.hacked })()", nil)
	b.said = nil // the refusal of the line above
}

func clickThemes(_ *testing.T, b *browser) {
	const paper = "getComputedStyle(document.body).backgroundColor"
	for _, scheme := range []string{"dark", "light"} {
		b.do("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": scheme}}})
		b.load(reads(2, 1))
		before := b.eval(paper)
		b.want("the reader's scheme is taken", paper+" === 'rgb(21, 23, 27)'", scheme == "dark")
		b.keys("t")
		b.want("t takes the other", paper+" !== "+quote(before.(string)), true)
		b.keys("t")
		b.want("and back", paper, before)
	}
}

func clickNothing(_ *testing.T, b *browser) {
	b.load(New("empty.pcap", nil))
	b.want("it says so", "document.getElementById('empty').textContent", "No iWARP messages in this capture.")
	b.keys("j", "k", "Enter", "n", "N", "x", "[", "]", "G", "Escape")
}

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

// TestShots draws captures of other implementations, for the docs and for inspection.
func TestShots(t *testing.T) {
	if *shots == "" {
		t.Skip("without -shots")
	}
	b := newBrowser(t)
	for _, name := range []string{"b-nfs3-ops", "d-terminate", "d-mpa-bad", "c-nfs41"} {
		f, err := os.Open("../../testdata/pcaps/" + name + ".pcap")
		noErr(t, err)
		p, j := New(name+".pcap", nil), judge.NewBuilder(nil)
		for ev, err := range decode.Events(f, nil) {
			noErr(t, err)
			p.Event(ev)
			j.Event(ev)
		}
		f.Close()
		b.loadReport(p, j.Report())
		b.screenshot(filepath.Join(*shots, name+".png"))
		b.keys("n", "Enter")
		b.screenshot(filepath.Join(*shots, name+"-open.png"))
		b.keys("t")
		b.screenshot(filepath.Join(*shots, name+"-dark.png"))
	}
}
