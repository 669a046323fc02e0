package judge

import (
	_ "embed"
	"strings"
)

//go:embed quotes.txt
var quoteFile string

// quotes holds the lines of the file by rule.
var quotes = parseQuotes(quoteFile)

// Quote is a short quotation of a document.
type Quote struct {
	Source string // "RFC 7306 Section 5.2.1"
	Words  string // ... stands for what is left out
}

// Quote returns the words on which the rule rests. There are none for rules whose document we could not compare word
// by word; their [Rule.Source] says where to look.
func (r *Rule) Quote() (q Quote, ok bool) {
	q, ok = quotes[r.ID]
	return q, ok
}

func parseQuotes(file string) map[string]Quote {
	m := make(map[string]Quote)
	for line := range strings.Lines(file) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		id, rest, _ := strings.Cut(line, "|")
		source, words, _ := strings.Cut(rest, "|")
		m[strings.TrimSpace(id)] = Quote{strings.TrimSpace(source), strings.TrimSpace(words)}
	}
	return m
}
