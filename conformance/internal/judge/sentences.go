package judge

import (
	"embed"
	"io/fs"
	"path"
	"slices"
	"strings"
)

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
