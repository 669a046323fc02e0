package engine_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/rdmap/ddp"
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
//	new E key=value …            a fresh engine: mulpdu ird ord recvs size interleave ext rtr
//	region E NAME len=N rights…  registers memory; STags print as their names. Of another stream: foreign; of all: shared;
//	                             that can be made durable: durable
//	fill NAME                    fills it with a pattern
//	mem NAME                     prints it, runs shortened
//	word NAME                    prints its first 64 bits, as a number
//	post E OP key=value …        a work request: text= n= word= stag= to= sink= sinkto= len= flags= hash= operand= done=
//	cancel E NAME                takes back the work request with that done=, if it is still in the queue
//	move E…                      moves the output of E to the other engine, E after E
//	lose E                       takes the output of E off the wire and prints it
//	raw E HEX…                   gives E one ULPDU, as if from the wire; a NAME in it is an STag
//	badcrc E HEX…                the same with a wrong CRC
//	revoke NAME                  invalidates a region
//	state E                      prints what E holds
//
// A Terminate is printed with how many octets of headers it quotes, if they are those of a segment that E was given.
//
// spec: rdmap 7.5 Flush
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
	heard   map[string][][]byte      // the ULPDUs that an engine was given
	sent    map[verbs.TermCode]bool  // the codes of the Terminates that were sent
	marked  map[string]bool          // whether this engine sends markers
	ins     map[string]*mpa.Inserter // inserts those
	seer    map[string]*mpa.Deframer // reads what this engine sends
}

func newScript(t testing.TB) *script {
	return &script{
		t: t, engines: map[string]*halves{}, seen: map[string]int{},
		regions: map[string]region.Region{}, mem: map[string][]byte{}, names: map[region.STag]string{},
		ended: map[*halves]bool{}, heard: map[string][][]byte{}, sent: map[verbs.TermCode]bool{}, ins: map[string]*mpa.Inserter{}, seer: map[string]*mpa.Deframer{},
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

func (s *script) num(kv map[string]string, key string) int { return int(s.num64(kv, key)) }

func (s *script) num64(kv map[string]string, key string) uint64 {
	if kv[key] == "" {
		return 0
	}
	n, err := strconv.ParseUint(kv[key], 0, 64)
	if err != nil {
		s.t.Fatalf("%s=%s: %v", key, kv[key], err)
	}
	return n
}

func (s *script) command(line string) {
	words := strings.Fields(line)
	kv, rest := args(words[1:])
	switch words[0] {
	case "new":
		s.create(rest[0], engineConfig{
			mulpdu: s.num(kv, "mulpdu"), ird: s.num(kv, "ird"), ord: s.num(kv, "ord"),
			recvs: s.num(kv, "recvs"), size: s.num(kv, "size"), interleave: kv["interleave"] == "on", ext: scriptExt[kv["ext"]],
		})
		if kv["rtr"] == "on" {
			s.engines[rest[0]].rcv.AwaitRTR()
		}
	case "region":
		s.region(rest, kv)
	case "fill":
		copy(s.mem[rest[0]], rdmaptest.Pattern(len(s.mem[rest[0]])))
	case "mem":
		s.printf("%s %s", rest[0], runs(s.mem[rest[0]]))
	case "word":
		s.printf("%s is %#x", rest[0], binary.NativeEndian.Uint64(s.mem[rest[0]]))
	case "cancel":
		s.printf("  taken back: %v", s.engines[rest[0]].snd.Cancel(logDone{s, rest[1]}))
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
		s.events(rest[0])
	case "raw":
		s.raw(rest[0], strings.Join(rest[1:], ""), 0)
	case "badcrc":
		s.raw(rest[0], strings.Join(rest[1:], ""), 1)
	case "revoke":
		noErr(s.t, s.regions[rest[0]].Invalidate(s.t.Context()))
	case "state":
		s.state(rest[0])
	default:
		s.t.Fatalf("no command %q", words[0])
	}
}

func (s *script) create(name string, cfg engineConfig) {
	e := newEngine(cfg)
	s.engines[name], s.seen[name], s.seer[name], s.heard[name] = e, 0, &mpa.Deframer{CRC: true}, nil
	if s.marked[name] {
		e.wk.StartMarking()
		s.ins[name] = e.wk.Markers()
		s.seer[name].ExpectMarkers()
	}
	if s.marked[s.peer(name)] {
		e.df.ExpectMarkers()
		if s.engines[s.peer(name)] == nil { // there are only raw commands
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

var scriptExt = map[string]verbs.Extensions{
	"": 0, "7306": verbs.Ext7306, "swap": verbs.ExtSwap | verbs.Ext7306, "commit": verbs.ExtCommit, "all": engine.ExtAll,
}

var scriptRights = map[string]region.Access{
	"read": region.RemoteRead, "write": region.RemoteWrite, "invalidate": region.RemoteInvalidate, "sink": region.ReadSink,
	"atomic": region.Atomic, "verify": region.Verify, "visible": region.FlushVisible, "persistent": region.FlushPersistent,
}

func (s *script) region(rest []string, kv map[string]string) {
	var a region.Access
	for _, r := range rest[2:] {
		a |= scriptRights[r]
	}
	has := func(word string) bool { return slices.Contains(rest, word) }
	mem := make([]byte, (s.num(kv, "len")+7)/8*8)[:s.num(kv, "len")] // a word lies where it has to
	var of region.Memory = region.Bytes(mem)
	if has("durable") {
		of = &rdmaptest.Persisting{Mem: mem}
	}
	tab := s.engines[rest[0]].snd.Table
	register := tab.RegisterMemory
	switch {
	case has("foreign"):
		register = tab.Domain().NewTable().RegisterMemory
	case has("shared"):
		register = tab.Domain().RegisterShared
	}
	reg := must(register(of, region.Options{Access: a}))(s.t)
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
	"write": verbs.OpWrite, "read": verbs.OpReadRequest, "imm": verbs.OpImmediate, "immse": verbs.OpImmediateSE,
	"add": verbs.OpAtomicRequest, "flush": verbs.OpFlushRequest, "verify": verbs.OpVerifyRequest, "aw": verbs.OpAtomicWriteRequest,
}

func (s *script) post(e *halves, op string, kv map[string]string) {
	wr := verbs.WR{
		Op: scriptOps[op], Head: []byte(kv["text"]), STag: s.regions[kv["stag"]].STag(), TO: s.num64(kv, "to"),
		Sink: s.regions[kv["sink"]].STag(), SinkTO: s.num64(kv, "sinkto"), Len: uint32(s.num(kv, "len")),
		Flags: verbs.FlushFlags(s.num(kv, "flags")),
	}
	if n := s.num(kv, "n"); n > 0 {
		wr.Body = rdmaptest.Pattern(n)
	}
	if kv["word"] != "" {
		wr.Body = binary.BigEndian.AppendUint64(nil, s.num64(kv, "word"))
	}
	if op == "add" {
		wr.Atomic = &verbs.Atomic{Operand: s.num64(kv, "operand")}
	}
	switch hash := kv["hash"]; hash {
	case "":
	case "right":
		wr.Body = rdmaptest.Castagnoli(s.mem[kv["stag"]][:wr.Len])
	default:
		wr.Body = rdmaptest.Unhex(s.t, hash)
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

// raw gives the engine a ULPDU. spoil goes into its CRC.
func (s *script) raw(name, text string, spoil byte) {
	for n, reg := range s.regions {
		text = strings.ReplaceAll(text, n, hex.EncodeToString(stagOctets(reg.STag())))
	}
	u := rdmaptest.Unhex(s.t, text)
	f := rdmaptest.FPDU(u)
	if m := s.ins[s.peer(name)]; m != nil {
		f = m.AppendFPDU(nil, u, true)
	}
	f[len(f)-1] ^= spoil
	s.heard[name] = append(s.heard[name], u)
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
		s.heard[s.peer(name)] = append(s.heard[s.peer(name)], bytes.Clone(u))
		var seg ddp.Segment
		seg.Parse(u)
		op := verbs.Opcode(seg.Control & 0x1f)
		last := ""
		if seg.Last {
			last = " last"
		}
		if seg.Tagged {
			s.printf("%s: %v stag=%s to=%d len=%d%s", name, op, s.stagName(region.STag(seg.STag)), seg.TO, len(u)-14, last)
		} else {
			s.printf("%s: %v qn=%d msn=%d mo=%d%s len=%d%s", name, op, seg.QN, seg.MSN, seg.MO, s.untagged(name, &seg, u[18:]), len(u)-18, last)
		}
		b = b[n:]
	}
}

func (s *script) untagged(name string, seg *ddp.Segment, payload []byte) string {
	switch op := verbs.Opcode(seg.Control & 0x1f); {
	case op.Invalidates():
		return " inv=" + s.stagName(region.STag(seg.ULP))
	case op == verbs.OpReadRequest:
		var rr engine.ReadRequest
		rr.Parse(payload)
		return fmt.Sprintf(" from=%s+%d to=%s+%d size=%d", s.stagName(rr.Src), rr.SrcTO, s.stagName(rr.Sink), rr.SinkTO, rr.Size)
	case op == verbs.OpTerminate:
		x, err := verbs.ParseTerminate(payload)
		if err != nil || x.Size() != len(payload) {
			s.t.Fatalf("%s sent the Terminate %x: %v", name, payload, err)
		}
		s.sent[x.Code] = true
		if pe, ok := s.engines[name].err.(*verbs.ProtocolError); ok && (pe.Code != x.Code || !bytes.Equal(pe.Terminate.Append(nil), payload)) {
			s.t.Errorf("%s sent the Terminate %x, and says %+v above", name, payload, pe.Terminate)
		}
		quotes := slices.Concat(x.DDP, x.Read)
		if len(quotes) > 0 && !slices.ContainsFunc(s.heard[name], func(u []byte) bool { return int(x.SegLen) == len(u) && bytes.HasPrefix(u, quotes) }) {
			return fmt.Sprintf(" %v quotes %x of %d, which it never got", x.Code, quotes, x.SegLen)
		}
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
