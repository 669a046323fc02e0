package judge

import (
	"embed"
	_ "embed"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Level is how strongly the document demands the rule, in the words of RFC 2119.
type Level uint8

const (
	Must   Level = iota // MUST, REQUIRED, SHALL, or a format that leaves no choice
	Should              // SHOULD, RECOMMENDED
)

// String returns "MUST" or "SHOULD".
func (l Level) String() string { return [...]string{"MUST", "SHOULD"}[l] }

// Severity is what a violation means to the peer.
type Severity uint8

const (
	// Error: the peer may, or must, refuse it.
	Error Severity = iota
	// Warning: wrong, but the RFC tells the peer to ignore it (reserved bits, padding), or the peer can live
	// with it.
	Warning
	// Note: worth knowing; a report that has only notes is clean.
	Note
)

// String returns "error", "warning" or "note".
func (s Severity) String() string { return [...]string{"error", "warning", "note"}[s] }

// Rule is one rule that a trace can break.
type Rule struct {
	ID       string // "DDP-005": layer and number; never reused
	Source   string // "RFC 5041 Section 5.3"
	Level    Level
	Severity Severity
	Text     string // one sentence: what must hold
	Spec     string // document and section of the [Sentence] that it judges: "ddp 3"
	Breaks   Breaks // what else a breach makes wrong, and of what it may be a consequence
}

// Breaks says what a breach of a rule does to the rest of a trace: see [folding]. Zero is a rule that stands alone.
type Breaks uint16

const (
	// endsStream are the rules after whose breach the octets of that direction cannot be trusted to be read
	// right: where frames begin, or what they are, is unknown. A conforming receiver ends the stream there.
	endsStream Breaks = 1 << iota
	// wrongLength are the rules that a message breaks if it has more or fewer octets than its sender meant: then
	// the next frame begins elsewhere.
	wrongLength
	// dependent are the rules that compare a message with what the other side has sent before.
	dependent
	// closing are the dependent rules whose breach is the last consequence of a lost message.
	closing
	// shifting are the rules after whose breach the rest of an RPC-over-RDMA header, or of an RPC message, is
	// read from the wrong place.
	shifting
	// losing are the rules after whose breach the judge does not know one message, or a part of it, for certain:
	// which call it was, which it answered, where its data went. One answer, or one lack of it, follows.
	losing
	// onResults are the rules about chunks of a reply, which are judged by what the reply says.
	onResults
	// onPositions are the rules about the Positions of Read chunks.
	onPositions
	// onAccess are the rules that a reply breaks if the RDMA operations before it went elsewhere.
	onAccess
	// executed are the rules about the execution of calls that are wrong.
	executed
	// acceptance are rules of receivers, which go on after what they should have refused. What they say is never a consequence: the receiver should have stopped.
	acceptance
	// settlesPeerToPeer and the two after it are about one thing each that the startup settles: read depths, and private
	// data, which has inline thresholds and remote invalidation. Breaches after the first follow from it.
	settlesPeerToPeer
	settlesDepths
	settlesPrivateData

	settles = settlesPeerToPeer | settlesDepths | settlesPrivateData
)

// is reports whether the rule has one of these bits.
func (r *Rule) is(b Breaks) bool { return r.Breaks&b != 0 }

// Layer returns the part before the number: "DDP".
func (r *Rule) Layer() string {
	layer, _, _ := strings.Cut(r.ID, "-")
	return layer
}

// tables are the rules of each layer, lowest first.
var tables = [][]*Rule{mpaRules, ddpRules, rdmapRules, rpcrdmaRules, rpcRules, nfsRules, commitRules}

var (
	allRules  = slices.Concat(tables...)
	rulesByID = index(allRules)
)

func index(rules []*Rule) map[string]*Rule {
	m := make(map[string]*Rule, len(rules))
	for _, r := range rules {
		m[r.ID] = r
	}
	return m
}

// Rules returns all rules, those of the lowest layer first, in the order of their numbers. The caller must
// not change them.
func Rules() []*Rule { return slices.Clone(allRules) }

// Find returns the rule with an ID.
func Find(id string) (*Rule, bool) {
	r, ok := rulesByID[id]
	return r, ok
}

// samples holds a line for each rule: its ID, and what the judge reports of its twin. A test makes it, with
// -update.
//
//go:embed samples.txt
var samples string

// Sample returns what the judge reports of the rule's twin, a trace that breaks this rule and no other:
// "frame 7 > MSN 4 on queue 0, expected 3". It is "" for a rule without a sample.
func (r *Rule) Sample() string {
	for line := range strings.Lines(samples) {
		if id, text, _ := strings.Cut(strings.TrimSpace(line), " "); id == r.ID {
			return text
		}
	}
	return ""
}

//go:embed quotes.txt
var quoteFile string

// quotes holds the lines of the file by rule.
var quotes = parseQuotes(quoteFile)

// Quote returns the words of [Rule.Source] on which the rule rests; ... stands for what is left out. Rules of our own
// formats quote our own documents.
func (r *Rule) Quote() string { return quotes[r.ID] }

func parseQuotes(file string) map[string]string {
	m := make(map[string]string)
	for line := range strings.Lines(file) {
		if id, words, ok := strings.Cut(line, "|"); ok && line[0] != '#' {
			m[strings.TrimSpace(id)] = strings.TrimSpace(words)
		}
	}
	return m
}

// Sentence is a sentence of one of the documents that we follow, in our words, and the rules that judge it.
type Sentence struct {
	Section string   `json:"section"`
	Says    string   `json:"says"`
	Rules   []string `json:"rules,omitempty"`  // IDs; none if a trace cannot show it
	Reason  string   `json:"reason,omitempty"` // why there is no rule
}

// The files hold a sentence per line,
//
//	section | sentence | IDs of rules
//	section | sentence | - reason
//
// and empty lines and comments (#).
//
//go:embed sentences/*.txt
var sentenceFiles embed.FS

// Documents returns the names of the documents that [Sentences] knows, sorted.
func Documents() []string {
	names, _ := fs.Glob(sentenceFiles, "sentences/*.txt") // the pattern is right
	for i, n := range names {
		names[i] = strings.TrimSuffix(path.Base(n), ".txt")
	}
	slices.Sort(names)
	return names
}

// Sentences returns the sentences of a document, in order; none if there is no such document.
func Sentences(document string) (all []Sentence) {
	b, err := sentenceFiles.ReadFile("sentences/" + document + ".txt")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			all = append(all, parseSentence(line))
		}
	}
	return all
}

// parseSentence reads one line.
func parseSentence(line string) (s Sentence) {
	section, rest, _ := strings.Cut(line, "|")
	says, verdict, _ := strings.Cut(rest, "|")
	s.Section, s.Says = strings.TrimSpace(section), strings.TrimSpace(says)
	verdict = strings.TrimSpace(verdict)
	if reason, ok := strings.CutPrefix(verdict, "-"); ok {
		s.Reason = strings.TrimSpace(reason)
	} else {
		s.Rules = strings.Fields(verdict)
	}
	return s
}
