package engine_test

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

var update = flag.Bool("update", false, "rewrite testdata/script with what the engines do")

// TestScripts runs two engines, a and b, by the commands in testdata/script. A
// script is a sequence of blocks: command lines, "----", what happened. Lines that
// begin with # are comments. The commands:
//
//	new E key=value …            a fresh engine: mulpdu ird ord recvs size interleave
//	region E NAME len=N rights…  registers memory; STags print as their names
//	fill NAME                    fills it with a pattern
//	mem NAME                     prints it, runs shortened
//	post E OP key=value …        a work request: text= n= stag= to= sink= sinkto= len= done=
//	move E…                      moves the output of E to the other engine, E after E
//	lose E                       takes the output of E off the wire and prints it
//	raw E HEX…                   gives E one ULPDU, as if from the wire; a NAME in it is an STag
//	revoke NAME                  invalidates a region
//	state E                      prints what E holds
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/script/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) {
			old := must(os.ReadFile(f))(t)
			for marks := range 4 { // the same things happen whichever side sends markers
				s := newScript(t)
				s.marked = map[string]bool{"a": marks&1 != 0, "b": marks&2 != 0}
				if got := s.run(string(old)); marks > 0 && got != string(old) && !*update {
					t.Errorf("with markers of %v: %s", s.marked, firstDifference(string(old), got))
				}
			}
			got := newScript(t).run(string(old))
			if got == string(old) {
				return
			}
			if *update {
				noErr(t, os.WriteFile(f, []byte(got), 0o666))
				return
			}
			t.Errorf("the engines behave differently:\n%s", firstDifference(string(old), got))
		})
	}
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range g {
		if i >= len(w) || w[i] != g[i] {
			from := max(0, i-8)
			return fmt.Sprintf("line %d:\nwant\n\t%s\ngot\n\t%s", i+1,
				strings.Join(w[from:min(len(w), i+4)], "\n\t"), strings.Join(g[from:min(len(g), i+4)], "\n\t"))
		}
	}
	return "shorter than before"
}

type script struct {
	t       testing.TB
	engines map[string]*halves
	seen    map[string]int // messages printed
	regions map[string]region.Region
	mem     map[string][]byte
	names   map[region.STag]string
	ended   map[*halves]bool
	out     *strings.Builder
	marked  map[string]bool          // whether this engine sends markers
	ins     map[string]*mpa.Inserter // inserts those
	seer    map[string]*mpa.Deframer // reads what this engine sends
}

func newScript(t testing.TB) *script {
	return &script{
		t: t, engines: map[string]*halves{}, seen: map[string]int{},
		regions: map[string]region.Region{}, mem: map[string][]byte{}, names: map[region.STag]string{},
		ended: map[*halves]bool{}, ins: map[string]*mpa.Inserter{}, seer: map[string]*mpa.Deframer{},
	}
}

// run executes the blocks of text, and returns text with the results.
func (s *script) run(text string) string {
	var all strings.Builder
	var cmds []string
	skip := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case line == "----":
			all.WriteString("----\n")
			s.out = &all
			for _, c := range cmds {
				s.command(c)
			}
			cmds, skip = nil, true
		case skip && line != "":
			continue // old results
		default:
			skip = false
			all.WriteString(line + "\n")
			if line != "" && line[0] != '#' {
				cmds = append(cmds, line)
			}
		}
	}
	return all.String()
}

func (s *script) printf(format string, args ...any) { fmt.Fprintf(s.out, format+"\n", args...) }

// args splits words into those of the form key=value and the others.
func args(words []string) (kv map[string]string, rest []string) {
	kv = map[string]string{}
	for _, w := range words {
		if k, v, ok := strings.Cut(w, "="); ok {
			kv[k] = v
		} else {
			rest = append(rest, w)
		}
	}
	return kv, rest
}

func (s *script) num(kv map[string]string, key string) int {
	if kv[key] == "" {
		return 0
	}
	n, err := strconv.ParseInt(kv[key], 0, 64)
	if err != nil {
		s.t.Fatalf("%s=%s: %v", key, kv[key], err)
	}
	return int(n)
}

func (s *script) command(line string) {
	words := strings.Fields(line)
	kv, rest := args(words[1:])
	switch words[0] {
	case "new":
		s.create(rest[0], engineConfig{
			mulpdu: s.num(kv, "mulpdu"), ird: s.num(kv, "ird"), ord: s.num(kv, "ord"),
			recvs: s.num(kv, "recvs"), size: s.num(kv, "size"), interleave: kv["interleave"] == "on",
		})
	case "region":
		s.region(rest, kv)
	case "fill":
		copy(s.mem[rest[0]], rdmaptest.Pattern(len(s.mem[rest[0]])))
	case "mem":
		s.printf("%s %s", rest[0], runs(s.mem[rest[0]]))
	case "post":
		s.post(s.engines[rest[0]], rest[1], kv)
	case "move":
		for _, name := range rest {
			s.move(name)
		}
	case "lose":
		b := s.engines[rest[0]].output()
		s.wire(rest[0], bytes.Clone(b))
		s.lose(s.engines[s.peer(rest[0])], b)
	case "raw":
		s.raw(rest[0], strings.Join(rest[1:], ""))
	case "revoke":
		if err := s.regions[rest[0]].Invalidate(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
	case "state":
		s.state(rest[0])
	default:
		s.t.Fatalf("no command %q", words[0])
	}
}

func (s *script) create(name string, cfg engineConfig) {
	e := newEngine(cfg)
	s.engines[name], s.seen[name], s.seer[name] = e, 0, &mpa.Deframer{CRC: true}
	if s.marked[name] {
		e.wk.StartMarking()
		s.ins[name] = e.wk.Markers()
		s.seer[name].ExpectMarkers()
	}
	if s.marked[s.peer(name)] {
		e.df.ExpectMarkers()
		if s.ins[s.peer(name)] == nil { // there are only raw commands
			s.ins[s.peer(name)] = new(mpa.Inserter)
		}
	}
}

// lose drops b instead of giving it to the engine. Only the position in the stream, on which markers depend, moves on.
func (s *script) lose(e *halves, b []byte) {
	for e != nil && len(b) > 0 {
		_, n, err := e.df.Next(b)
		if err != nil || n == 0 {
			s.t.Fatalf("lost garbage: %x", b)
		}
		b = b[n:]
	}
}

func (s *script) region(rest []string, kv map[string]string) {
	var a region.Access
	for _, r := range rest[2:] {
		a |= map[string]region.Access{
			"read": region.RemoteRead, "write": region.RemoteWrite,
			"invalidate": region.RemoteInvalidate, "sink": region.ReadSink,
		}[r]
	}
	mem, reg := s.engines[rest[0]].register(s.t, s.num(kv, "len"), a)
	s.mem[rest[1]], s.regions[rest[1]], s.names[reg.STag()] = mem, reg, rest[1]
}

// logDone is a Completer that prints when it is called.
type logDone struct {
	s    *script
	name string
}

func (d logDone) Complete(err error) {
	if err != nil {
		d.s.printf("  %s failed: %s", d.name, why(err))
		return
	}
	d.s.printf("  %s done", d.name)
}

var scriptOps = map[string]verbs.Opcode{
	"send": verbs.OpSend, "sendse": verbs.OpSendSE, "sendinv": verbs.OpSendInvalidate, "sendseinv": verbs.OpSendSEInvalidate,
	"write": verbs.OpWrite, "read": verbs.OpReadRequest,
}

func (s *script) post(e *halves, op string, kv map[string]string) {
	wr := verbs.WR{
		Op: scriptOps[op], Head: []byte(kv["text"]), STag: s.regions[kv["stag"]].STag(), TO: uint64(s.num(kv, "to")),
		Sink: s.regions[kv["sink"]].STag(), SinkTO: uint64(s.num(kv, "sinkto")), Len: uint32(s.num(kv, "len")),
	}
	if n := s.num(kv, "n"); n > 0 {
		wr.Body = rdmaptest.Pattern(n)
	}
	if kv["done"] != "" {
		wr.Done = logDone{s, kv["done"]}
	}
	if err := engine.Misuse(&wr); err != nil {
		s.printf("  refused: %v", err)
		return
	}
	e.post(wr)
}

func (s *script) peer(name string) string {
	if name == "a" {
		return "b"
	}
	return "a"
}

func (s *script) move(name string) {
	b := s.engines[name].output()
	s.wire(name, bytes.Clone(b))
	s.engines[s.peer(name)].input(b)
	s.events(s.peer(name))
}

func (s *script) raw(name, text string) {
	for n, reg := range s.regions {
		text = strings.ReplaceAll(text, n, hex.EncodeToString(stagOctets(reg.STag())))
	}
	f := rdmaptest.FPDU(rdmaptest.Unhex(s.t, text))
	if m := s.ins[s.peer(name)]; m != nil {
		f = m.AppendFPDU(nil, rdmaptest.Unhex(s.t, text), true)
	}
	s.engines[name].input(f)
	s.events(name)
}

// wire prints the FPDUs in b.
func (s *script) wire(name string, b []byte) {
	for len(b) > 0 {
		u, n, err := s.seer[name].Next(b)
		if err != nil || n == 0 {
			s.t.Fatalf("%s sent garbage: %x", name, b)
		}
		seg := segments(s.t, rdmaptest.FPDU(u))[0]
		op := verbs.Opcode(seg.Control & 0x1f)
		last := ""
		if seg.Last {
			last = " last"
		}
		if seg.Tagged {
			s.printf("%s: %v stag=%s to=%d len=%d%s", name, op, s.stagName(region.STag(seg.STag)), seg.TO, len(u)-14, last)
		} else {
			s.printf("%s: %v qn=%d msn=%d mo=%d%s len=%d%s", name, op, seg.QN, seg.MSN, seg.MO, s.untagged(op, seg.ULP, u[18:]), len(u)-18, last)
		}
		b = b[n:]
	}
}

func (s *script) untagged(op verbs.Opcode, ulp uint32, payload []byte) string {
	switch {
	case op.Invalidates():
		return " inv=" + s.stagName(region.STag(ulp))
	case op == verbs.OpReadRequest:
		var rr engine.ReadRequest
		rr.Parse(payload)
		return fmt.Sprintf(" from=%s+%d to=%s+%d size=%d", s.stagName(rr.Src), rr.SrcTO, s.stagName(rr.Sink), rr.SinkTO, rr.Size)
	case op == verbs.OpTerminate:
		x, _ := verbs.ParseTerminate(payload)
		return fmt.Sprintf(" %v quotes %d+%d", x.Code, len(x.DDP), len(x.Read))
	}
	return ""
}

func (s *script) stagName(x region.STag) string {
	if n, ok := s.names[x]; ok {
		return n
	}
	return x.String()
}

// events prints what has happened at an engine since the last call.
func (s *script) events(name string) {
	e := s.engines[name]
	for _, m := range e.got[s.seen[name]:] {
		inv := ""
		if m.Invalidated != 0 {
			inv = " invalidated " + s.stagName(m.Invalidated)
		}
		s.printf("  %s got %v: %s%s", name, m.Op, runs(m.Data), inv)
	}
	s.seen[name] = len(e.got)
	if e.err != nil && !s.ended[e] {
		s.ended[e] = true
		s.printf("  %s ends: %s", name, why(e.err))
	}
}

// why returns an error without the parts that differ from run to run.
func why(err error) string {
	if p, ok := err.(*verbs.ProtocolError); ok {
		return fmt.Sprintf("we refuse: %s (%s)", p.Msg, p.Section)
	}
	return err.Error()
}

func (s *script) state(name string) {
	e := s.engines[name]
	s.printf("%s: %d waiting, %d reads in flight, %d slots in use, %d receives, %d octets staged, %d regions",
		name, e.snd.Requests().Len(), e.snd.InFlight(), e.snd.Slots(), e.rcv.Recvs.Load(), e.snd.Copied, e.snd.Table.Live())
}

// runs prints octets: text as text, patterns and zeros by their length.
func runs(b []byte) string {
	zero, pat := true, true
	p := rdmaptest.Pattern(len(b))
	for i := range b {
		zero = zero && b[i] == 0
		pat = pat && b[i] == p[i]
	}
	switch {
	case len(b) == 0:
		return "(empty)"
	case zero:
		return fmt.Sprintf("(%d zeros)", len(b))
	case pat:
		return fmt.Sprintf("(%d of the pattern)", len(b))
	case len(b) <= 40:
		return strconv.Quote(string(b))
	}
	return fmt.Sprintf("(%d mixed)", len(b))
}
